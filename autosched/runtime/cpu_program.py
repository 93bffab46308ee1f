"""A program on the CPUs of this machine: executors for callers, and threads that help them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.borrowed_array import resolved
from autosched.runtime.cores import available_cores, check_cores
from autosched.runtime.errors import AssemblyError, InputError
from autosched.runtime.execution import Execution
from autosched.runtime.executor import Executor
from autosched.runtime.loaded import Arrays, Outputs
from autosched.runtime.native_plan import NativeLibrary
from autosched.runtime.peaks import Peaks
from autosched.runtime.program import ExecutionPlan
from autosched.runtime.team_pool import Lease, shared_teams
from autosched.system.numbers import counted
from codegen.cpu_share import usable_cpus
from sketch.errors import TargetError

if TYPE_CHECKING:
    from autosched.runtime.explanation import Machine


class CpuCall:
    """Memory and threads for the calls of a ``with`` block.

    A class for the same reason as ``Lease``.
    """

    __slots__ = ("_executor", "_lease", "_program")

    def __init__(self, program: CpuProgram) -> None:
        self._program = program
        self._executor: Executor | None = None
        self._lease: Lease | None = None

    def __enter__(self) -> Execution:
        program = self._program
        try:  # an exception may come at any instant
            self._executor = executor = program.take()
            self._lease = lease = program.lease()
            return Execution(executor, lease.__enter__())
        except BaseException as error:
            self.__exit__(type(error))
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._lease is not None:
                self._lease.__exit__(kind)
        finally:
            if self._executor is not None:
                self._program.give_back(self._executor)


class CpuProgram:
    """A ``LoadedProgram`` whose kernels are functions of this process."""

    def __init__(
        self,
        program: ExecutionPlan,
        constants: NDArray[np.uint8],
        library: NativeLibrary,
        payloads: Mapping[str, bytes],
    ) -> None:
        """Make the first executor.

        Args:
            program: the plan.
            constants: the constants' segment.
            library: the loaded machine code.
            payloads: ONNX models of the host steps by name.
        """
        self._program, self._payloads = program, payloads
        self._constants, self._library = constants, library
        # Executors that no call uses.  Taking one and giving it back are single steps of the
        # interpreter: no lock is held, so that nothing can stay locked after an exception or in a
        # forked child.  One that is lost on its way is garbage, and the next call makes another.
        self._idle = deque([self._new_executor()], maxlen=usable_cpus())
        self._cores: tuple[int, ...] = ()
        shared_teams(program.target.threads).prepare()

    def call(self) -> CpuCall:
        """Memory and threads for the calls of a ``with`` block."""
        return CpuCall(self)

    def take(self) -> Executor:
        """An executor that no call uses."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._new_executor()

    def give_back(self, executor: Executor) -> None:
        """An executor that ``take`` gave."""
        self._idle.append(executor)

    def lease(self) -> Lease:
        """A team for one call, on the cores that were chosen."""
        return shared_teams(self._program.target.threads, self._cores).team()

    def bind(self, arrays: Arrays, given: Outputs) -> Callable[[], None]:
        """A function that computes the ``given`` outputs with an executor of its own."""
        executor = self._new_executor()
        executor.bind(arrays, given)
        copied = executor.copied(given)

        def compute() -> None:
            with self.lease() as team:
                executor.run(0 if team is None else team.address)
            for number, name in copied:
                given[name][...] = executor.output(number)

        return compute

    def submit(self, arrays: Arrays, handle: int | None) -> dict[str, Any]:
        """Raises TargetError."""
        raise TargetError(
            "the module is for a CPU: its arrays are in CPU memory", self._program.name, "use run"
        )

    def read(self, value: Any, where: str) -> NDArray[Any]:
        """The array in CPU memory that ``value`` gives through DLPack.

        Raises:
            InputError: it is no array in CPU memory.
        """
        try:
            return np.from_dlpack(resolved(value))
        except (TypeError, ValueError, RuntimeError, BufferError) as error:
            brain = str(getattr(value, "dtype", "")).endswith("bfloat16")
            raise InputError(
                f"cannot read {type(value).__name__} through DLPack: {error}",
                where,
                "NumPy reads no bfloat16: give tensor.view(torch.int16).numpy()"
                ".view(ml_dtypes.bfloat16)"
                if brain
                else "give an array in CPU memory that needs no gradient",
            ) from error

    def pin_threads(self, cores: Sequence[int] | None) -> None:
        """Bind the threads that compute to cores.

        Raises:
            AssemblyError: there are fewer or more cores than threads.
        """
        count = self._program.target.threads
        chosen = tuple(sorted(available_cores())[:count] if cores is None else cores)
        if len(chosen) != count:
            raise AssemblyError(
                f"cannot pin {counted(count, 'thread')} to {counted(len(chosen), 'core')}",
                self._program.name,
                "give one core for each thread, or compile for fewer threads",
            )
        check_cores(chosen)
        self._cores = chosen

    def peaks(self) -> Peaks:
        """The measured peaks of all threads."""
        from autosched.runtime.probes.peak import measured_peak, measured_unit_peak

        target = self._program.target
        units = {unit: measured_unit_peak(target, unit) for unit in self._units()}
        return Peaks(measured_peak(target), units)

    def machine(self) -> Machine:
        """This machine, measured."""
        from autosched.runtime.explanation import measured_machine

        program = self._program
        specs = (*program.inputs, *(spec for spec, _ in program.outputs))
        size = program.arena_bytes + program.constants_bytes + sum(s.size_bytes for s in specs)
        functions = dict.fromkeys(n for step in program.steps for n, _ in step.info.functions)
        return measured_machine(program.target, size, self._units(), functions)

    def _units(self) -> tuple[str, ...]:
        """The tensor units that kernels use."""
        found = (step.info.unit for step in self._program.steps if step.info.unit)
        return tuple(dict.fromkeys(found))

    def _new_executor(self) -> Executor:
        return Executor(self._program, self._constants, self._library, self._payloads)

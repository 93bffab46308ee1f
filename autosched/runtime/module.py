"""``Module``: a compiled network that runs, is timed, profiled and saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.backend import runtime_of
from autosched.runtime.benchmark import Benchmark
from autosched.runtime.bound import BoundModule, bound
from autosched.runtime.errors import ExportError, InputError
from autosched.runtime.inputs import check_inputs, named_inputs
from autosched.runtime.loaded import LoadedProgram
from autosched.runtime.outputs import check_outputs, delivered
from autosched.runtime.profiler import Profile, make_profile
from autosched.runtime.program import ExecutionPlan, TensorSpec
from autosched.runtime.random_arrays import random_arrays
from autosched.runtime.summary import program_html, program_table, program_text
from autosched.runtime.untuned import Untuned, untuned_tasks
from autosched.system.limits import check_whole
from autosched.system.stability import EMULATED, Conditions, Watch

if TYPE_CHECKING:
    from autosched.page.file import ReportPage
    from autosched.runtime.archive import Contents
    from autosched.runtime.explanation import Explanation
    from autosched.runtime.export import ExportedLibrary
    from autosched.runtime.gpu.export import ExportedSource
    from sketch.target.target import Target

PROFILE_RUNS = 20
"""Runs of a profile, unless told otherwise."""


class Module:
    """A compiled network.

    Calls from several threads run at the same time, each in the thread that makes it, with memory
    of its own for intermediate results (``program.arena_bytes``; the constants are shared), and
    with the worker threads that are free.  Results depend neither on other calls nor on how many
    threads were free.  An exception that comes during a call (Ctrl-C, a signal handler that raises)
    is raised when the native code that runs has ended; later calls are not affected.

    Attributes:
        program: the plan, as data.
        objects: machine code by symbol, as written to a file by ``save``.
        payloads: ONNX models of the host steps by name, serialized.
        constants: packed, uint8 ``[constants_bytes]``.
    """

    def __init__(
        self,
        program: ExecutionPlan,
        constants: NDArray[np.uint8],
        loaded: LoadedProgram,
        objects: Mapping[str, bytes],
        payloads: Mapping[str, bytes] | None = None,
    ) -> None:
        """``constants``: the constants' segment; ``loaded``: code and constants, ready to run."""
        self.program, self.objects, self.payloads = program, objects, payloads or {}
        self.constants, self._loaded = constants, loaded

    def __reduce__(self) -> NoReturn:
        """Modules hold machine code at addresses of this process.

        Raises:
            ExportError: always.
        """
        raise ExportError(
            f"module {self.name!r} cannot be pickled or copied",
            hint="save() it and load() the file, in any process; calls from several threads may "
            "share one module",
        )

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def target(self) -> Target:
        return self.program.target

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs: name, shape, dtype."""
        return self.program.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs: name, shape, dtype."""
        return tuple(spec for spec, _ in self.program.outputs)

    @property
    def modules(self) -> tuple[Module, ...]:
        """One for each set of input shapes that it was compiled for; of this one, itself."""
        return (self,)

    @property
    def untuned(self) -> tuple[Untuned, ...]:
        """Tasks without a record, which use what the draft model predicts to be fastest."""
        return untuned_tasks(self.program)

    @property
    def contents(self) -> Contents:
        """All that is written to a file."""
        return self.program, self.constants, dict(self.objects), dict(self.payloads)

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, NDArray[Any]] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Compute the outputs.

            >>> module = asd.workloads.get("GMM").task(1, 16, 16, 16).module()
            >>> ones = np.ones((1, 16, 16), np.float32)
            >>> module.run({"A": ones, "B": ones})["gmm"][0, 0, :2]
            array([16., 16.], dtype=float32)

        Args:
            inputs: an array for each input name: NumPy, or anything with ``__dlpack__``.  Any
                strides (dense arrays are read in place); shape and dtype must be the model's.
                An input without axes may be a NumPy scalar of its dtype, or a number.
                NaN and infinity are legal values.
            out: arrays by output name that take outputs, of the model's shapes and dtypes; no two
                share memory.  Dense ones that share none with an input are written in place;
                others, and all of a GPU's, are copied into.  After an error they hold anything.

        Returns:
            Arrays by output name: those of ``out``, and new ones for the other outputs.

        Raises:
            InputError: a name is missing or unknown, a shape or dtype differs, or arrays of
                ``out`` share memory.
            HostError: an operator that runs on the host failed on these values.
            OutOfMemoryError: an output does not fit the memory of this machine.
        """
        arrays = check_inputs(self.program.inputs, inputs, self._loaded.read)
        given = None if out is None else check_outputs(self.outputs, out)
        with self._loaded.call() as call:
            found = call.once(arrays, given)
            return found if given is None else delivered(found, given)

    def bind(
        self, inputs: Mapping[str, Any], out: Mapping[str, NDArray[Any]] | None = None
    ) -> BoundModule:
        """Fix the arrays: calls then take some microseconds less than ``run``, see ``BoundModule``.

        Args:
            inputs: as for ``run``, but dense arrays: every call reads what is in them then.
            out: as for ``run``; outputs that are not in it get new arrays.

        Raises:
            InputError: as for ``run``, or an input is not dense.
            OutOfMemoryError: an output does not fit the memory of this machine.
        """
        return bound(self.program, self._loaded, inputs, out)

    def __call__(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> Any:
        """``run``: ``module(x)`` for one input, ``module(a=x, b=y)``, or ``module({"a": x})``.

            >>> module = asd.workloads.get("GMM").task(1, 16, 16, 16).module()
            >>> ones = np.ones((1, 16, 16), np.float32)
            >>> module(A=ones, B=ones)[0, 0, :2]
            array([16., 16.], dtype=float32)

        Args:
            inputs: as for ``run``, or the array of the only input.
            named: arrays by input name, instead.

        Returns:
            The array of a module with one output, else arrays by output name.

        Raises:
            InputError: as for ``run``, or an array without a name where there are several inputs.
        """
        outputs = self.run(named_inputs(self.inputs, inputs, named))
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    def run_on_device(self, inputs: Mapping[str, Any], stream: int | None = None) -> dict[str, Any]:
        """Compute the outputs, and leave them in the memory of the GPU.

        Args:
            inputs: as for ``run``; arrays on the GPU (anything with ``__dlpack__``, row-major) are
                read in place.
            stream: handle of a CUDA stream that everything is submitted to, such as
                ``torch.cuda.current_stream().cuda_stream``: outputs are there when it comes so far,
                and inputs must stay until then.  None: what computes the inputs is waited for, and
                so are the outputs.

        Returns:
            By output name a ``DeviceArray``, which other libraries read in place through DLPack,
            or a NumPy array where the output is an input, a constant or a host operator's.

        Raises:
            InputError: as for ``run``.
            HostError: an operator that runs on the host failed on these values.
            TargetError: the module is for a CPU.
        """
        arrays = check_inputs(self.inputs, inputs, self._loaded.read)
        return self._loaded.submit(arrays, stream)

    def benchmark(
        self, inputs: Mapping[str, Any] | None = None, repeats: int = 50, warmup: int = 5
    ) -> Benchmark:
        """Time ``repeats`` runs, after ``warmup`` runs that are not counted (and at least 50 ms).

        Args:
            inputs: as for ``run``; random values when None.
            repeats: runs that are counted, at least 1.
            warmup: runs before them, at least 0.

        Raises:
            InputError: a wrong input, or fewer repeats or runs before them than that.
        """
        arrays = check_inputs(self.inputs, self._default(inputs), self._loaded.read)
        check_whole("repeats", repeats, 1, InputError)
        check_whole("warmup", warmup, 0, InputError)
        with self._loaded.call() as call, Watch() as watch:
            seconds = call.time(arrays, repeats, warmup)
        workers = runtime_of(self.target).workers
        threads = self.target.threads
        return Benchmark(self.name, tuple(seconds), threads, self._conditions(watch), workers)

    def profile(
        self,
        inputs: Mapping[str, Any] | None = None,
        repeats: int = PROFILE_RUNS,
        counters: bool = False,
    ) -> Profile:
        """Time every step inside ``repeats`` ordinary runs: a table of operators.

        The path is that of ``run``; a clock is read between steps.  What the steps do not account
        for (copying the outputs, the clock) is the row "rest".  Times are medians of the runs.

            >>> module = asd.workloads.get("GMM").task(1, 16, 16, 16).module()
            >>> profile = module.profile(repeats=5)     # print it for the table
            >>> profile.rows[0].op
            'GMM(1, 16, 16, 16)'

        Args:
            inputs: as for ``run``; random values when None.
            repeats: runs that are timed, at least 1.
            counters: also count cycles, instructions, cache misses and stalls of every step, in
                user mode and over all threads, in as many runs more.  A worker that waits for
                another one counts: it spins.  Where the system offers no counters, ``note`` of the
                profile says why.

        Raises:
            InputError: a wrong input, or no repeats.
        """
        arrays = check_inputs(self.inputs, self._default(inputs), self._loaded.read)
        check_whole("repeats", repeats, 1, InputError)
        counts = None
        with self._loaded.call() as call:
            with Watch() as watch:
                seconds, steps = call.time_steps(arrays, repeats)
            if counters:
                counts = call.count_steps(arrays, repeats)
        peaks = self._loaded.peaks()
        return make_profile(self.program, seconds, steps, peaks, counts, self._conditions(watch))

    def explain(
        self, inputs: Mapping[str, Any] | None = None, repeats: int = PROFILE_RUNS
    ) -> Explanation:
        """Every operator against what this machine could do at best, most time lost first.

        The limit of an operator is the larger of the time of its arithmetic, as the algorithm that
        runs has it, at the measured peak (float32) and at the measured rates of functions such as
        exponentials, and that of its least traffic at the measured bandwidths of reading and
        writing, as far as it fits at those of caches, all with the module's threads.

        Args:
            inputs: as for ``run``; random values when None.
            repeats: runs that are timed, at least 1.
        """
        from autosched.runtime.explanation import explain_program

        machine = self._loaded.machine()
        return explain_program(self.program, self.profile(inputs, repeats), machine)

    def report(
        self,
        path: str | PathLike[str] | None = None,
        inputs: Mapping[str, Any] | None = None,
        repeats: int = PROFILE_RUNS,
    ) -> ReportPage:
        """One HTML page of where the time goes, which needs nothing else (extra ``report``).

        A notebook shows what this returns.  The page has the latency and its noise, the time of
        every operator and its limit, the roofline, the plan and the machine.  What a log says of
        the search is in the page of ``autosched report``.

        Args:
            path: of a file that it is written to; None: none.
            inputs: as for ``run``; random values when None.
            repeats: runs that are timed, at least 1, of the whole and as many with a clock between
                the steps.

        Raises:
            InputError: a wrong input, or no repeats.
            MissingPackageError: what draws the charts is not installed.
            OptionError: the file cannot be written.
        """
        from autosched.runtime.report import TimedModule, module_report

        timed = [
            TimedModule(
                module.program, module.benchmark(inputs, repeats), module.explain(inputs, repeats)
            )
            for module in self._reported(inputs)
        ]
        return module_report(timed, path)

    def pin_threads(self, cores: Sequence[int] | None = None) -> None:
        """Bind the threads that compute to cores (default: the first that it may use).

        The thread that calls is bound to the first of them while it computes, unless it runs there,
        and gets its own cores back.  For one caller at a time: calls at the same time would share
        these cores.

        Raises:
            AssemblyError: there are fewer cores than threads, or this process may not use a core.
        """
        self._loaded.pin_threads(cores)

    def random_inputs(self, seed: int = 0) -> dict[str, NDArray[Any]]:
        """Standard-normal floats, small integers, random booleans and digits, by input name.

        Raises:
            InputError: ``seed`` is no whole number that is at least 0.
            OutOfMemoryError: an array does not fit the memory of this machine.
        """
        return random_arrays(self.inputs, seed)

    def save(self, path: str | Path) -> None:
        """Write the module to one file (suffix ``.asd``), which ``autosched.load`` reads.

            >>> asd.workloads.get("GMM").task(1, 16, 16, 16).module().save("saved.asd")
            >>> print(asd.load("saved.asd").name)
            GMM(1, 16, 16, 16)

        The file holds machine code, packed constants, the plan, the target and what runs on the
        host as ONNX models: no Python objects.  It is signed with a key of this user on this
        machine (``~/.local/share/autosched/module.key``, made at the first save), so that
        ``autosched.load`` knows it; elsewhere it has to be trusted explicitly.  A warning says that
        no key can be kept: other processes must be told to trust it.  Missing folders are made.
        """
        from autosched.runtime.archive import write_archive

        write_archive(Path(path), [module.contents for module in self.modules])

    def export_library(
        self, path: str | Path, name: str | None = None
    ) -> ExportedLibrary | ExportedSource:
        """Write a native library that runs without Python: ``path.o``, ``.h``, ``.hpp``, ``.so``.

        The object holds machine code and packed constants.  The C header documents the functions,
        the C++ header has an object around them.  The shared library is only written where a
        linker is found; the result says so otherwise.

        Of a module for a GPU: ``path.c`` and ``path.h`` on the CUDA driver API alone, cubins,
        constants and a manifest.

        Args:
            path: of the files, without suffix.  A folder, or a path that ends with a separator,
                takes files that are named after the model: ``"build/"`` gives ``build/mlp.o``.
            name: prefix of the C functions; default: the name of the files.

        Raises:
            ExportError: operators run on the host, the constants exceed 2 GB, or a file cannot be
                written.
        """
        from autosched.runtime.library_path import library_path

        export, base = runtime_of(self.target).export, library_path(path, self.name)
        return export(self.program, self.constants, self.objects, base, name)

    def summary(self) -> str:
        """A table: layers, operator, shapes, task and where each schedule comes from."""
        return program_table(self.program)

    def __repr__(self) -> str:
        return f"Module({program_text(self.program)})"

    def _repr_html_(self) -> str:
        return program_html(self.program)

    def _reported(self, inputs: Mapping[str, Any] | None) -> Sequence[Module]:
        """What a report with these inputs is about."""
        return (self,)

    def _conditions(self, watch: Watch) -> Conditions:
        return EMULATED if self.target.card.emulated else watch.conditions

    def _default(self, inputs: Mapping[str, Any] | None) -> Mapping[str, Any]:
        return self.random_inputs() if inputs is None else inputs

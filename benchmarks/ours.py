"""autosched as a contender: a kernel of a tuned task, or a compiled network."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contender import Prepared
from benchmarks.harness import OURS
from benchmarks.workloads import IntegerConv, Network, SmallModule, Workload

if TYPE_CHECKING:
    from autosched.runtime.module import Module
    from autosched.runtime.profiler import Profile, ProfileRow

_TOP_TASKS = 8


@dataclass(frozen=True, slots=True)
class OursOperator:
    """The best candidate of a log, called through its C interface.

    Attributes:
        log: the records of the tuning run.
        renamed: compile the program that is written out under other names.
        direct: of a convolution of bytes, compute that of floats, as it is written.
    """

    log: str
    renamed: bool = False
    name: str = OURS
    direct: bool = False

    def supports(self, workload: Workload) -> bool:
        return not isinstance(workload, Network | SmallModule)

    def prepare(self, workload: Workload, threads: int) -> Prepared:
        """Compile; constants are packed here, everything else is the kernel's own work."""
        from autosched.measure.execution import LoadedKernel, aligned_copy, aligned_empty
        from benchmarks.programs import operator_task
        from codegen.build import build
        from codegen.denormals import flush_flag
        from codegen.driver import build_driver
        from codegen.llvm.jit import load
        from codegen.team import Team
        from sketch.lower import lower
        from sketch.lower.packing import preparations

        assert not isinstance(workload, Network | SmallModule)
        if self.direct and isinstance(workload, IntegerConv):
            workload = workload.of
        task = operator_task(workload, threads, self.renamed, self.direct)
        shapes = [output.shape for output in task.dag.outputs]  # variants may join dimensions
        best = task.candidate(self.log)
        values = dict(best.values)
        kernel = build(lower(best.sketch, values), task.target)
        packed = preparations(best.sketch, values)
        given = workload.arrays()
        arrays: list[NDArray[Any]] = []
        outputs: dict[str, NDArray[Any]] = {}
        for argument in kernel.arguments:
            if argument.scope == "output":
                arrays.append(aligned_empty(argument.shape, argument.dtype))
                name, shape = workload.outputs[len(outputs)], shapes[len(outputs)]
                outputs[name] = arrays[-1].reshape(shape)
            else:
                array = given[argument.name]
                packing = packed.get(argument.name)
                arrays.append(aligned_copy(array if packing is None else packing.apply(array)))
        arrays.append(aligned_empty((max(kernel.workspace_bytes, 1),), "int8"))
        loaded = LoadedKernel(kernel, arrays, {})
        driver = load([build_driver(task.target)])
        words = [ctypes.c_void_p] * 2 + [ctypes.c_int64] + [ctypes.c_void_p] * 2 + [ctypes.c_int]
        run_once = ctypes.CFUNCTYPE(None, *words)(driver.address("time_kernel"))
        table, nanoseconds = ctypes.addressof(loaded.blocks[0]), ctypes.c_int64()
        clock, flush = ctypes.addressof(nanoseconds), flush_flag("flush")  # as in a module
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[:1])  # the caller is the first of the threads that compute
        team = Team(threads, cores)
        return Prepared(
            run=lambda: run_once(loaded.address, table, 1, clock, team.address, flush),
            outputs=lambda: outputs,
            note=f"{best.sketch.variant}, {kernel.instructions} instructions",
            keep_alive=(loaded, team, driver, nanoseconds),
        )


@dataclass(frozen=True, slots=True)
class OursNetwork:
    """A saved module; a run includes copies and layout changes at the network's edge."""

    path: str
    name: str = OURS

    def supports(self, workload: Workload) -> bool:
        return isinstance(workload, Network)

    def prepare(self, workload: Workload, threads: int) -> Prepared:
        """Load the module and pin its threads."""
        import autosched
        from autosched.graph.ops.pooling import channels_first, channels_last

        del os.environ["GOMP_CPU_AFFINITY"]  # the module pins its threads itself
        module = autosched.load(self.path)
        module.pin_threads()
        arrays = workload.arrays()
        assert isinstance(workload, Network)
        if workload.channels_last:
            arrays = _reordered(arrays, channels_last)
        latest: list[Mapping[str, NDArray[np.float32]]] = [{}]

        def run() -> None:
            latest[0] = module.run(arrays)

        def outputs() -> Mapping[str, NDArray[np.float32]]:
            moved = workload.channels_last
            return _reordered(latest[0], channels_first) if moved else latest[0]

        return Prepared(
            run=run,
            outputs=outputs,
            note=f"{len(module.program.steps)} kernels",
            details=lambda: _details(module, arrays),
        )


def _reordered(
    arrays: Mapping[str, NDArray[Any]], order: Callable[[int], tuple[int, ...]]
) -> dict[str, NDArray[Any]]:
    """Images and videos with their dimensions in another order; other arrays as they are."""
    return {
        name: np.ascontiguousarray(array.transpose(order(array.ndim))) if array.ndim > 3 else array
        for name, array in arrays.items()
    }


def _details(module: Module, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """What a profile of the very same path says."""
    profile = module.profile(arrays)
    steps = module.program.steps
    return {
        "kernels": len(steps),
        "kernels_without_record": sum(row.schedule == "model" for row in profile.rows),
        "host_operators": sum(row.schedule == "host" for row in profile.rows),
        "profile_total_ms": profile.total.microseconds / 1e3,
        "profile_residual_percent": profile.rest.percent,
        "top_tasks": _top_tasks(profile),
    }


def _top_tasks(profile: Profile) -> list[dict[str, Any]]:
    """Where the time goes: the tasks with the largest shares, all their uses together."""
    rows: dict[str, list[ProfileRow]] = {}
    for row in profile.rows:
        rows.setdefault(row.task, []).append(row)
    totals: list[dict[str, Any]] = [
        {
            "task": task,
            "op": uses[0].op,
            "shapes": uses[0].shapes,
            "uses": len(uses),
            "percent": sum(use.percent for use in uses),
            "gflops": sum(use.gflops for use in uses) / len(uses),
        }
        for task, uses in rows.items()
    ]
    return sorted(totals, key=lambda total: -total["percent"])[:_TOP_TASKS]

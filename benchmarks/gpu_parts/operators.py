"""One operator: tuned, its best kernel timed in turns with a rival's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import numpy as np

from autosched.measure.gpu_worker import expected_seconds
from autosched.task import Task
from benchmarks.gpu_parts.bench import Bench, verdict
from benchmarks.gpu_parts.rivals import COPIES, Rival
from benchmarks.gpu_parts.row_log import Row
from codegen.backend import build_kernel
from codegen.cuda.kernel import CudaKernel
from codegen.gpu.device_kernel import DeviceKernel
from codegen.gpu.open import open_device
from codegen.gpu.protocol import Array, Device
from sketch.dag.dag import ComputeDAG
from sketch.errors import AutoschedError
from sketch.lang.dtypes import BYTES, numpy_dtype
from sketch.lower import lower

ROUNDS: Final = 11
_END_S: Final = 6.0  # of a turn: final timing, the rival, processes that end
_LEAST_S: Final = 1.0
_WARM_UP_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class OperatorCase:
    """An operator and what it is compared with.

    Attributes:
        name: of the row.
        dag: the program.
        rival: makes the rival; raises OSError, which says why there is none, or what its library
            raises.
        bar: least ratio of the rival's time and ours.
        tune_s: seconds of tuning, over all runs.
    """

    name: str
    dag: ComputeDAG
    rival: Callable[[Device], Rival]
    bar: float
    tune_s: float


def operator_rows(bench: Bench, cases: Sequence[OperatorCase]) -> Iterator[Row]:
    """A row of each case that is not done; what fails is a row, too."""
    by_name = {case.name: case for case in cases}
    for name, seconds in bench.turns(list(by_name)):
        try:
            yield _row(bench, by_name[name], seconds)
        except AutoschedError as error:
            yield {"name": name, "done": False, "error": str(error)}


def _row(bench: Bench, case: OperatorCase, seconds: float) -> Row:
    task = Task(case.dag, bench.target)
    tuned_s, before = bench.tuned_s(case.name), time.monotonic()
    trials = bench.known.get(case.name, {}).get("trials", 0)
    budget = min(case.tune_s - tuned_s, max(seconds - _END_S, 0.5 * seconds))
    if budget >= _LEAST_S:
        trials = task.tune(budget=budget, log=bench.log, quiet=True).tasks[0].trials
        tuned_s += max(time.monotonic() - before, budget)
    candidate = task.candidate(bench.log)
    row: Row = {
        "name": case.name,
        "done": tuned_s >= case.tune_s - _LEAST_S,
        "tuned_s": tuned_s,
        "trials": trials,
        "gflop": task.flops / 1e9,
        "sketch": candidate.sketch.variant,
        "unit": candidate.unit,
    }
    kernel = build_kernel(lower(candidate.sketch, dict(candidate.values)), bench.target)
    assert isinstance(kernel, CudaKernel)
    row |= _resources(kernel)
    expected = expected_seconds(candidate.sketch, candidate.values)
    with (
        open_device(bench.target) as device,
        DeviceKernel(device, kernel, _arrays(kernel), expected) as ours,
    ):
        return row | _beside_rival(case, device, lambda: ours.seconds(COPIES) / COPIES)


def _beside_rival(case: OperatorCase, device: Device, ours: Callable[[], float]) -> Row:
    """Our time, with the rival's where there is one that works."""
    try:
        rival = case.rival(device)
        try:
            return compared(ours, rival, case.bar)
        finally:
            rival.close()
    except AutoschedError:
        raise
    except Exception as error:  # the boundary to other libraries: our time counts without theirs
        return compared(ours, f"no rival here: {error}", case.bar)


def compared(ours: Callable[[], float], rival: Rival | str, bar: float) -> Row:
    """Medians of both in turns, and their ratio: above 1 ours is faster."""
    start = time.monotonic()
    while time.monotonic() - start < _WARM_UP_S:
        ours()  # the clocks rise
    if isinstance(rival, str):
        return {"ours_ms": median(ours() for _ in range(ROUNDS)) * 1e3, "rival": rival}
    rounds = [(ours(), rival.seconds()) for _ in range(ROUNDS)]
    mine, other = (median(seconds) for seconds in zip(*rounds, strict=True))
    ratio = other / mine
    return {
        "ours_ms": mine * 1e3,
        "rival": rival.name,
        "rival_ms": other * 1e3,
        "ratio": ratio,
        "ratio_low": min(theirs / own for own, theirs in rounds),
    } | verdict(ratio, bar)


def _resources(kernel: CudaKernel) -> Mapping[str, Any]:
    launches = [{"grid": each.grid, "block": each.block} for each in kernel.source.launches]
    used = [
        {"registers": r.registers, "spills": r.spills, "shared_bytes": r.shared_bytes}
        for _, r in kernel.resources
    ]
    return {"launches": launches, "resources": used}


def _arrays(kernel: CudaKernel) -> dict[str, Array]:
    """Values for all inputs and constants, in the kernel's own layouts: normal ones, and all that
    bytes can be, as the rivals get: how much power a card needs depends on them.
    """
    rng = np.random.default_rng(0)
    return {
        argument.name: _values(rng, argument.shape, argument.dtype)
        for argument in kernel.arguments
        if argument.scope != "output"
    }


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    if dtype in BYTES:
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape, np.float32).astype(numpy_dtype(dtype))

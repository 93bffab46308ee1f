"""Whether what is said of times agrees: profile and graph, draft model and measured times.

And whether the device works again, in a new process, after a kernel did something illegal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import get_context
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import autosched
from autosched import zoo
from autosched.measure.result import Timing
from autosched.records.log import RecordLog
from autosched.records.record import Record
from autosched.runtime.profiler import Profile
from benchmarks.gpu_parts import bandwidth, layers, products, units
from benchmarks.gpu_parts.bench import Bench, verdict
from benchmarks.gpu_parts.row_log import Row
from codegen.cuda.build import build
from codegen.gpu.errors import DeviceLostError
from codegen.gpu.open import open_device
from codegen.gpu.protocol import submit
from costmodel.extract import features_of
from sketch.dag.dag import ComputeDAG
from sketch.lower import lower
from sketch.population.population import from_rows
from sketch.target.target import Target

# Of the large ones that whose inputs and outputs take the least of its time to copy: no step of a
# profile copies them.
_PROFILED: Final = {False: "bert-base", True: "mlp"}
_LARGEST_GAP_PERCENT: Final = 3.0
_TERMS: Final = ("compute", "memory", "overhead")
_LEAST_RECORDS: Final = 8
_RECOVERY_S: Final = 60.0


def run(bench: Bench) -> Iterator[Row]:
    """A row each: profile, recovery, and the draft model on the programs of other parts."""
    measured: dict[str, Sequence[ComputeDAG]] = {
        "products": products.programs(bench),
        "units": units.programs(bench),
        "layers": layers.programs(bench),
        "bandwidth": list(bandwidth.programs(bench).values()),
    }
    for name, _ in bench.turns(["profile", "recovery", *(f"draft {part}" for part in measured)]):
        if name == "profile":
            yield _profile(bench)
        elif name == "recovery":
            yield _recovery(bench.target)
        else:
            part = name.removeprefix("draft ")
            log = RecordLog(bench.folder / f"{part}.jsonl")
            records = log.read().records if log.path.exists() else ()
            yield {"name": name, "done": False} | drafted(measured[part], records)


def _profile(bench: Bench) -> Row:
    name = _PROFILED[bench.small]
    log = bench.folder / "networks.jsonl"
    module = autosched.compile(zoo.build(name), bench.target, log=log, effort="none")
    graph_us = module.benchmark().median * 1e6
    return {"name": "profile", "done": True, "network": name} | agreement(
        module.profile(), graph_us
    )


def agreement(profile: Profile, graph_us: float) -> Row:
    """Whether the steps of a profile, each timed by events, add up to the time of the graph."""
    steps_us = sum(row.microseconds for row in profile.rows)
    gap = abs(steps_us / graph_us - 1) * 100
    return {
        "graph_us": graph_us,
        "profile_us": profile.total.microseconds,
        "steps_us": steps_us,
        "gap_percent": gap,
    } | verdict(gap, _LARGEST_GAP_PERCENT, at_most=True)


def _recovery(target: Target) -> Row:
    """What a process says that uses an illegal address, and what the next one computes."""
    found = [_in_a_process(break_device, target), _in_a_process(use_device, target)]
    holds = found == ["lost", "right"]
    return {"name": "recovery", "done": True, "found": found, "bar": {"holds": holds}}


def _in_a_process(work: Any, target: Target) -> str:
    with get_context("spawn").Pool(1) as pool:
        try:
            return str(pool.apply_async(work, (target,)).get(_RECOVERY_S))
        except Exception as error:  # the boundary: whatever goes wrong is a result
            return f"{type(error).__name__}: {error}"


def break_device(target: Target) -> str:
    """Run a kernel on an address that is nobody's; "lost" if the device says so, and still does."""
    candidate = autosched.Task(products.product(64), target).draft_candidate(quick=True)
    kernel = build(lower(candidate.sketch, dict(candidate.values)), target)
    with open_device(target) as device:
        names = [argument.name for argument in kernel.arguments]
        addresses = dict.fromkeys([*names, *(name for name, _ in kernel.workspaces)], 0)
        stream, code = device.stream(), device.load(kernel, 0.0)
        try:
            submit(stream, code, addresses)
            stream.synchronise()
        except DeviceLostError:
            pass
        try:
            device.allocate(1)
        except DeviceLostError:
            return "lost"
    return "not lost"


def use_device(target: Target) -> str:
    """A small product; "right" if it is."""
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal((64, 64), np.float32) for name in ("A", "B")}
    task = autosched.Task(products.product(64), target)
    found = task.module().run(arrays)["C"]
    return "right" if np.abs(found - arrays["A"] @ arrays["B"]).max() < 1e-3 else "wrong"


def drafted(dags: Sequence[ComputeDAG], records: Sequence[Record]) -> Row:
    """How the draft model's times are to measured ones, a value for each program.

    ``rank_correlation`` is Spearman's; ``measured_over_draft`` the median; ``terms`` the factors
    that make a sum of the draft's terms fit best: what to calibrate.
    """
    programs = []
    for dag in dags:
        drafts, seconds = _both(dag, records)
        if len(seconds) < _LEAST_RECORDS:
            continue
        programs.append(
            {
                "program": dag.key,
                "records": len(seconds),
                "rank_correlation": rank_correlation(drafts["draft_seconds"], seconds),
                "measured_over_draft": float(np.median(seconds / drafts["draft_seconds"])),
                "terms": _fitted(drafts, seconds),
            }
        )
    return {"programs": programs}


def _both(
    dag: ComputeDAG, records: Sequence[Record]
) -> tuple[Mapping[str, NDArray[np.float64]], NDArray[np.float64]]:
    """The draft's terms and the measured seconds of all candidates of a program that ran."""
    names = ["draft_seconds", *(f"draft_{term}_seconds" for term in _TERMS)]
    columns: dict[str, list[float]] = {name: [] for name in names}
    seconds: list[float] = []
    for record in records:
        if record.task != dag.key or record.phase != "trial":
            continue
        if isinstance(record.result, Timing) and record.variant == "direct":
            candidate = record.candidate(dag)
            features = features_of(from_rows(candidate.sketch, [dict(candidate.values)]))
            seconds.append(float(np.median(record.result.seconds)))
            for name in names:
                columns[name].append(float(features.column(name).sum()))
    return {name: np.array(values) for name, values in columns.items()}, np.array(seconds)


def rank_correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Spearman's, between -1 and 1; equal values have the ranks in which they stand."""
    first, second = (
        np.argsort(np.argsort(values, kind="stable")).astype(np.float64) for values in (one, other)
    )
    return float(np.corrcoef(first, second)[0, 1])


def _fitted(
    drafts: Mapping[str, NDArray[np.float64]], seconds: NDArray[np.float64]
) -> dict[str, float]:
    """Factors, none negative, for which the relative error is least."""
    table = np.stack([drafts[f"draft_{term}_seconds"] for term in _TERMS], axis=1)
    kept, factors = list(range(len(_TERMS))), np.zeros(len(_TERMS))
    while kept:
        found, *_ = np.linalg.lstsq(
            table[:, kept] / seconds[:, None], np.ones(len(seconds)), rcond=None
        )
        if found.min() >= 0:
            factors[kept] = found
            break
        kept.pop(int(found.argmin()))
    return dict(zip(_TERMS, map(float, factors), strict=True))

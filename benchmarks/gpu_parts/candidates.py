"""Random candidates of many programs against the oracle: none may be wrong.

They are compiled by several processes at a time and checked each, as tuning does it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import autosched
from autosched import workloads, zoo
from autosched.measure.options import MeasureOptions
from autosched.measure.result import WRONG_RESULT, Failure, Timing
from autosched.records.log import RecordLog
from autosched.records.record import Record
from autosched.search.options import SearchOptions
from autosched.task import Task
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from autosched.tuning.run import run_job
from benchmarks.gpu_parts.bench import Bench
from benchmarks.gpu_parts.row_log import Row
from sketch.target.target import Target

WANTED: Final = 2000
_SMALL_WANTED: Final = 12
# Sizes of the library's programs that leave tails everywhere and that the oracle is soon through
# with.
_ARGUMENTS: Final[Mapping[str, Sequence[int]]] = {
    "C1D": (1, 30, 12, 20, 3, 2, 1),
    "C2D": (1, 15, 15, 12, 20, 3, 2, 1),
    "C3D": (1, 5, 7, 7, 6, 10, 3, 1, 1),
    "GMM": (2, 50, 36, 44),
    "GRP": (1, 9, 9, 16, 24, 3, 1, 1, 1, 4),
    "DIL": (1, 13, 13, 8, 12, 3, 1, 2, 2),
    "DEP": (1, 15, 15, 24, 3, 2, 1),
    "T2D": (1, 6, 6, 12, 10, 4, 2, 1),
    "CAP": (1, 6, 6, 6, 8, 3, 1, 1),
    "NRM": (2, 60, 50),
    "SFM": (2, 30, 70),
    "CBR": (1, 13, 13, 8, 20, 3, 1, 1),
    "TBMM": (1, 24, 3, 20),
}
_SMALL: Final = ("GMM", "SFM")
_NETWORKS: Final = {"resnet-18": 32, "mobilenet-v2": 32, "bert-base": 16}
_END_S: Final = 10.0
_SHOWN: Final = 5


def tasks(target: Target, small: bool) -> list[Task]:
    """Those of the library and, unless ``small``, of networks on small images."""
    names = _SMALL if small else tuple(_ARGUMENTS)
    found = [workloads.get(name).task(*_ARGUMENTS[name], target=target) for name in names]
    if not small:
        networks = [zoo.build(name, image=image) for name, image in _NETWORKS.items()]
        found += autosched.extract_tasks(networks, target)
    return list({task.key: task for task in found}.values())


def run(bench: Bench) -> Iterator[Row]:
    """One row that counts, over all runs."""
    wanted = _SMALL_WANTED if bench.small else WANTED
    for name, seconds in bench.turns(["random"]):
        chosen = tasks(bench.target, bench.small)
        options = TuneOptions(
            trials=wanted,
            budget_s=max(seconds - _END_S, 0.7 * seconds),
            strategy="round-robin",
            search=SearchOptions(policy="random"),
        )
        # A burst of one sample: what counts is the result.
        measure = MeasureOptions(check="all", samples=1, warmup_s=0.0)
        job = TuneJob(chosen, options=options, measure=measure, log=RecordLog(bench.log))
        result = run_job(job)
        row = counted(result.records)
        done = row["checked"] >= wanted or result.stopped == "nothing left to improve"
        yield {"name": name, "done": done, "tasks": len(chosen), **row}


def counted(records: Sequence[Record]) -> dict[str, Any]:
    """How many candidates were right, wrong, or failed otherwise, by the kind of their failure."""
    trials = [record for record in records if record.phase == "trial"]
    failures = [record.result for record in trials if isinstance(record.result, Failure)]
    wrong = [failure for failure in failures if failure.kind == WRONG_RESULT]
    others = [failure for failure in failures if failure.kind != WRONG_RESULT]
    right = [
        r.result.error
        for r in trials
        if isinstance(r.result, Timing) and r.result.error is not None
    ]
    return {
        "checked": len(right) + len(wrong),
        "wrong": len(wrong),
        "largest_error": max(right, default=0.0),
        "failed": dict(Counter(f"{failure.stage} {failure.kind}" for failure in others)),
        "messages": [str(failure) for failure in (*wrong, *others)][:_SHOWN],
        "bar": {"at_most": 0, "holds": not wrong},
    }

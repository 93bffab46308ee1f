"""Logs with altered values: the outcome is right, or a line is skipped by its number."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.measure.result import Timing
from autosched.measure.simulated import SimulatedRunner
from autosched.search.options import SearchOptions
from autosched.tuning.options import TuneOptions
from tests.support.log_judge import Judge
from tests.support.log_mutations import (
    PRODUCT,
    REDUCTION,
    Mutation,
    Sample,
    SampleLog,
    mutate,
    shared_lines,
)

QUICK_CASES, MANY_CASES = 8, 400


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> SampleLog:
    return SampleLog.make(tmp_path_factory.mktemp("logs"))


@pytest.fixture(scope="module")
def judge(log: SampleLog) -> Judge:
    return Judge(log)


def altered(log: SampleLog, change: dict[str, Any] | Any) -> Mutation:
    """The fastest record with ``change`` applied, signed again."""
    timed = [n for n, data in enumerate(log.lines) if "seconds" in data["result"]]
    number = min(timed, key=lambda n: min(log.lines[n]["result"]["seconds"]))
    data = json.loads(json.dumps(log.lines[number]))
    data["result"]["seconds"] = [1e-9]
    change(data)
    text, line = log.with_line(number, shared_lines(data))
    return Mutation("by hand", line, text)


def first(data: dict[str, Any], part: str) -> str:
    return next(name for name in data["decisions"] if part in name)


def of_kind(data: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(step for step in data["steps"] if step["kind"] == kind)


CHANGES = {
    "decision 0": lambda d: d["decisions"].update({first(d, "@"): 0}),
    "decision -1": lambda d: d["decisions"].update({first(d, "@"): -1}),
    "unrolled -1": lambda d: d["decisions"].update({first(d, "unroll"): -1}),
    "decision 10**30": lambda d: d["decisions"].update({first(d, "@"): 10**30}),
    "decision beyond its axis": lambda d: d["decisions"].update({first(d, "@"): 4096}),
    "decision of another name": lambda d: d["decisions"].update({"X.i@1": 2}),
    "all unrolled": lambda d: d["decisions"].update(dict.fromkeys(d["decisions"], 29)),
    "split by 0": lambda d: of_kind(d, "split").update(factors=[0]),
    "split by a million": lambda d: of_kind(d, "split").update(factors=[10**6]),
    "split by a list": lambda d: of_kind(d, "split").update(factors=[[1]]),
    "no such axis": lambda d: of_kind(d, "split").update(axis="9"),
    "axis is a number": lambda d: of_kind(d, "split").update(axis=3),
    "pack dimension": lambda d: of_kind(d, "pack").update(dim=9),
    "pack of nothing": lambda d: of_kind(d, "pack").update(loops=[]),
    "pack of another tensor": lambda d: of_kind(d, "pack").update(tensor="in0"),
    "a reduction in parallel": lambda d: d["steps"].append(
        {"kind": "annotate", "version": 1, "stage": "0", "loop": "2.0", "execution": "parallel"}
    ),
    "computed inside itself": lambda d: d["steps"].append(
        {"kind": "compute_at", "version": 1, "stage": "1", "target": "0", "loop": "2.0"}
    ),
    "rfactor into too many parts": lambda d: d["steps"].insert(
        0,
        {"kind": "rfactor", "version": 1, "stage": "0", "axis": "2", "parts": 10**9,
         "interleave": False},
    ),
    "thousands of copies": lambda d: d["steps"].extend(
        [{"kind": "cache_write", "version": 1, "stage": "0"}] * 5000
    ),
    "steps in another order": lambda d: d["steps"].reverse(),
    "a step is missing": lambda d: d["steps"].remove(of_kind(d, "reorder")),
    "no such stage": lambda d: of_kind(d, "split").update(stage="7"),
    "a stage by its name": lambda d: of_kind(d, "split").update(stage="C"),
    "no such decision": lambda d: of_kind(d, "split").update(factors=["99"]),
    "decisions in another order": lambda d: d.update(
        decisions=dict(reversed(d["decisions"].items()))
    ),
    "by name, as in old logs": lambda d: d.update(v=2),
    "another program's task": lambda d: d.update(task="0" * 16),
    "no variant of that name": lambda d: d.update(variant="winograd"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_an_altered_value_is_harmless(name: str, log: SampleLog, judge: Judge) -> None:
    assert judge.check(altered(log, CHANGES[name])) == "right"


def test_random_alterations_are_harmless(log: SampleLog, judge: Judge) -> None:
    outcomes = Counter(judge.check(mutate(log, random.Random(n))) for n in range(QUICK_CASES))
    assert outcomes["right"] > QUICK_CASES // 2


def test_random_alterations_of_split_sums_are_harmless(tmp_path: Path) -> None:
    log = SampleLog.make(tmp_path, sample=REDUCTION)
    judge = Judge(log)
    for number in range(QUICK_CASES // 2):
        judge.check(mutate(log, random.Random(number)))


@pytest.mark.slow
@pytest.mark.parametrize("sample", [PRODUCT, REDUCTION])
def test_hundreds_of_random_alterations_are_harmless(sample: Sample, tmp_path: Path) -> None:
    log = SampleLog.make(tmp_path, sample=sample)
    judge = Judge(log)
    for number in range(MANY_CASES):
        judge.check(mutate(log, random.Random(number)))


def test_tuning_goes_on_from_an_altered_log(log: SampleLog, judge: Judge) -> None:
    path = log.folder / "resumed.jsonl"
    for name in ("decision 10**30", "split by 0", "steps in another order"):
        mutation = altered(log, CHANGES[name])
        path.write_text(mutation.text)
        options = TuneOptions(
            trials=len(log.lines) + 2, search=SearchOptions(population=64, batch_trials=2)
        )
        result = judge.task.tune(options=options, runner=SimulatedRunner(), log=path)
        assert result.trials and np.isfinite(result.total_s)
        assert any(f"{path}:{mutation.number}:" in line for line in result.warnings)
        assert isinstance(result.records[-1].result, Timing)

"""One log per released schema: it must replay to the same loop nests, or be refused by name.

``schema_v1.jsonl`` was written once and is never regenerated; the goldens of the nests change only
when lowering does.
"""

import json
from pathlib import Path

import pytest

from autosched.records.errors import RecordError
from autosched.records.log import RecordLog
from autosched.records.reading import parse_lines
from autosched.records.record import SCHEMA_VERSION
from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError
from sketch.lang.expr import select
from sketch.lang.functions import maximum
from sketch.lang.reducers import sum as sum_
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.nest.printer import print_nest

LOGS = Path(__file__).parent


def convolution() -> ComputeDAG:
    """3x3 convolution with padding, bias and ReLU, written out so that no operator changes it."""
    x = placeholder((1, 9, 9, 8), name="x")
    w = placeholder((3, 3, 8, 32), name="w", constant=True)
    b = placeholder((32,), name="b", constant=True)
    kh, kw, ic = reduce_axis(3, "kh"), reduce_axis(3, "kw"), reduce_axis(8, "ic")

    def tap(n, i, j, o):
        h, v = i + kh - 1, j + kw - 1
        inside = (h >= 0, h < 9, v >= 0, v < 9)
        value = x[n, h, v, ic] * w[kh, kw, ic, o]
        for condition in inside:
            value = select(condition, value, 0.0)
        return sum_(value, axis=(kh, kw, ic))

    conv = compute((1, 9, 9, 32), tap, name="conv")
    add = lambda n, i, j, o: maximum(conv[n, i, j, o] + b[o], 0.0)  # noqa: E731
    return ComputeDAG([compute((1, 9, 9, 32), add, name="relu")])


def row_sum() -> ComputeDAG:
    """A long reduction, which an rfactor splits."""
    a, k = placeholder((4, 1000), name="a"), reduce_axis(1000)
    return ComputeDAG([compute((4,), lambda i: sum_(a[i, k], axis=k), name="s")])


PROGRAMS = {"convolution": convolution, "row_sum": row_sum}


def records_of(version: int):
    found = RecordLog(LOGS / f"schema_v{version}.jsonl").read()
    assert found.warnings == ()
    return found.records


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_every_released_schema_replays_to_the_same_nests(version, golden):
    programs = {dag.key: (name, dag) for name, dag in ((n, f()) for n, f in PROGRAMS.items())}
    records = records_of(version)
    assert {record.task for record in records} == set(programs)
    for number, record in enumerate(records):
        name, dag = programs[record.task]
        candidate = record.candidate(dag)
        nest = lower(candidate.sketch, dict(candidate.values))
        golden(f"v{version}_{number}_{name}", print_nest(nest))


def test_a_schema_that_is_to_come_is_refused_by_name():
    line = json.loads((LOGS / "schema_v1.jsonl").read_bytes().splitlines()[0])
    text = json.dumps(line | {"v": SCHEMA_VERSION + 1}).encode()
    with pytest.raises(RecordError, match=rf"schema {SCHEMA_VERSION + 1} is newer .*log:1"):
        parse_lines(text, "log")


def test_records_of_another_program_do_not_replay():
    record = next(r for r in records_of(1) if r.task == convolution().key)
    with pytest.raises(ScheduleError):
        record.candidate(row_sum())

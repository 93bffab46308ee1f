"""Steps by position follow a program's structure, not its names."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from autosched.records.old_names import Names, positions
from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError
from sketch.lang import reducers
from sketch.lang.expr import unary
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.rules.generate import generate
from sketch.schedule.loop import LoopId
from sketch.schedule.replay import replay
from sketch.schedule.sketch import Sketch, sketch_from_steps
from sketch.schedule.stage import StageId
from sketch.schedule.step_json import steps_to_json
from sketch.schedule.step_reading import steps_from_json
from tests.support.odd_names import names_of
from tests.support.targets import SMALL
from tests.support.workloads import WORKLOADS


def product(a: str, b: str, c: str, i: str, k: str) -> ComputeDAG:
    lhs, rhs = placeholder((9, 20), name=a), placeholder((20, 11), name=b)
    r = reduce_axis(20, k)
    body = eval(  # the names of a stage's axes are the parameter names of its function
        f"lambda {i}, other: reducers.sum(lhs[{i}, r] * rhs[r, other], axis=r)",
        {"reducers": reducers, "lhs": lhs, "rhs": rhs, "r": r},
    )
    total = compute((9, 11), body, name=c)
    return ComputeDAG([compute((9, 11), lambda x, y: unary("abs", total[x, y]), name=f"{c}_abs")])


Written = tuple[tuple[dict[str, Any], ...], tuple[str, ...]]


def written(sketch: Sketch) -> Written:
    decisions = [decision.id for decision in sketch.decisions]
    return steps_to_json(sketch.program, sketch.steps, decisions)


def test_a_renamed_program_takes_over_every_sketch() -> None:
    old = product("A", "B", "C", "i", "k")
    new = product("left", "right", "out.local", "row", "depth")
    assert old.key == new.key
    expected = {s.key for s in generate(new, SMALL)}
    for sketch in generate(old, SMALL):
        steps, decisions = steps_from_json(new, *written(sketch))
        again = sketch_from_steps(new, steps, sketch.variant, SMALL)
        assert again.key in expected
        assert tuple(d.id for d in again.decisions) == decisions
        assert [d.choices for d in again.decisions] == [d.choices for d in sketch.decisions]


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_step_kind_survives_there_and_back(name: str) -> None:
    dag = WORKLOADS[name]()
    for sketch in generate(dag, SMALL):
        decisions = tuple(decision.id for decision in sketch.decisions)
        assert steps_from_json(dag, *written(sketch)) == (sketch.steps, decisions)
        json.dumps(written(sketch))


def test_steps_by_name_are_those_by_position() -> None:
    """As logs of older schemas have them: also under other names than the program's."""
    dag = WORKLOADS["matmul"]()
    steps = [
        {"kind": "cache_write", "version": 1, "stage": "p"},
        {"kind": "split", "version": 1, "stage": "p.local", "axis": "z", "factors": ["w", 2]},
        {"kind": "cache_read", "version": 1, "tensor": "b", "consumer": "p.local"},
        {"kind": "compute_at", "version": 1, "stage": "p.local", "target": "p", "loop": "y.0"},
        {"kind": "annotate", "version": 1, "stage": "p.local", "loop": "z.2",
         "execution": "unrolled"},
    ]  # fmt: skip
    names = Names(("a", "b"), (("p", ("x", "y", "z")),))
    found, decisions = positions(dag, names, steps, ["w"])
    assert decisions == ("w",)
    assert [list(step.values())[2:] for step in found] == [
        ["0"],
        ["0", "2", ["0", 2]],
        ["in1", "0", "workspace"],
        ["1", "2", "1.0"],
        ["1", "2.2", "unrolled"],
    ]
    program = replay(dag, steps_from_json(dag, found, decisions)[0])
    assert program.named("C.local").attach == (StageId(0), LoopId(1, 0))


def test_another_structure_is_refused() -> None:
    dag = WORKLOADS["matmul"]()
    names = names_of(dag)
    with pytest.raises(ScheduleError, match="does not fit this program"):
        positions(dag, replace(names, inputs=("A",)), (), ())


@pytest.mark.parametrize(
    ("step", "what"),
    [
        ({"kind": "split", "stage": "7", "axis": "0", "factors": []}, "no stage at '7'"),
        ({"kind": "split", "stage": "C", "axis": "0", "factors": []}, "no stage at 'C'"),
        ({"kind": "split", "stage": "0", "axis": "9", "factors": []}, "no axis at '9'"),
        ({"kind": "split", "stage": "0", "axis": "0", "factors": ["1"]}, "no decision at '1'"),
        ({"kind": "reorder", "stage": "0", "order": ["0.4"]}, r"has no loop 0\.4"),
        ({"kind": "split", "stage": "00", "axis": "0", "factors": []}, "no stage at '00'"),
        ({"kind": "split", "stage": "\u0660", "axis": "0", "factors": []}, "no stage at"),
        ({"kind": "reorder", "stage": "0", "order": ["k.0"]}, r"no loop at 'k\.0'"),
        ({"kind": "cache_read", "tensor": "B", "consumer": "0"}, "no tensor at 'B'"),
        ({"kind": "cache_read", "tensor": "0.0", "consumer": "0"}, "no result at '0'"),
        ({"kind": "cache_read", "tensor": "in9", "consumer": "0"}, "no input at '9'"),
    ],
)
def test_positions_of_nothing_are_refused(step: dict[str, Any], what: str) -> None:
    with pytest.raises(ScheduleError, match=what):
        steps_from_json(WORKLOADS["matmul"](), ({**step, "version": 1},), ("0.0@1",))

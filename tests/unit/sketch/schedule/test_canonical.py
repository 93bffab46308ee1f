"""Steps by position follow a program's structure, not its names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched.records.old_names import Names, positions, with_names
from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError
from sketch.lang import reducers
from sketch.lang.expr import unary
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.rules.generate import generate
from sketch.schedule.canonical import named_steps, stored_steps
from sketch.schedule.decision import DecisionId, LoopDecision
from sketch.schedule.sketch import Sketch, sketch_from_steps
from sketch.schedule.steps import CacheRead, Reorder, Split, Step
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


def stored(sketch: Sketch) -> tuple[tuple[Step, ...], tuple[DecisionId, ...]]:
    decisions = [decision.name for decision in sketch.decisions]
    return stored_steps(sketch.program, sketch.steps, decisions)


def test_a_renamed_program_takes_over_every_sketch() -> None:
    old = product("A", "B", "C", "i", "k")
    new = product("left", "right", "out.local", "row", "depth")
    assert old.key == new.key
    expected = {s.key for s in generate(new, SMALL)}
    for sketch in generate(old, SMALL):
        steps, decisions = named_steps(new, *stored(sketch))
        again = sketch_from_steps(new, steps, sketch.variant, SMALL)
        assert again.key in expected
        assert tuple(d.name for d in again.decisions) == decisions
        assert [d.choices for d in again.decisions] == [d.choices for d in sketch.decisions]


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_step_kind_survives_there_and_back(name: str) -> None:
    dag = WORKLOADS[name]()
    old = names_of(dag)
    other = Names(
        tuple(f"in{n}" for n in range(len(old.inputs))),
        tuple(
            (f"s{n}", tuple(f"x{m}" for m in range(len(axes))))
            for n, (_, axes) in enumerate(old.stages)
        ),
    )
    for sketch in generate(dag, SMALL):
        decisions = tuple(decision.name for decision in sketch.decisions)
        assert named_steps(dag, *stored(sketch)) == (sketch.steps, decisions)
        there = named_steps(with_names(dag, other), *stored(sketch))
        assert positions(dag, other, *there) == stored(sketch)
        assert positions(dag, None, sketch.steps, decisions) == stored(sketch)


def test_another_structure_is_refused() -> None:
    dag = WORKLOADS["matmul"]()
    names = names_of(dag)
    with pytest.raises(ScheduleError, match="does not fit this program"):
        positions(dag, replace(names, inputs=("A",)), (), ())


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (Split("7", "0", ("0",)), "no stage at '7'"),
        (Split("C", "0", ("0",)), "no stage at 'C'"),
        (Split("0", "9", ("0",)), "no axis at '9'"),
        (Split("0", "0", ("1",)), "no decision at '1'"),
        (Reorder("0", ("0.4",)), r"no loop at '0\.4'"),
        (CacheRead("in9", "0"), "no tensor at 'in9'"),
    ],
)
def test_positions_of_nothing_are_refused(step: Step, what: str) -> None:
    with pytest.raises(ScheduleError, match=what):
        named_steps(WORKLOADS["matmul"](), (step,), (LoopDecision("0", "0", "1"),))

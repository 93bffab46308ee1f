"""Records follow a program's structure, not its names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError
from sketch.lang import reducers
from sketch.lang.expr import unary
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.schedule.rename import Names, names_of, rename, with_names
from sketch.schedule.sketch import sketch_from_steps
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


def test_a_renamed_program_takes_over_every_sketch(rng: np.random.Generator) -> None:
    old = product("A", "B", "C", "i", "k")
    new = product("left", "right", "out.local", "row", "depth")
    assert old.key == new.key
    expected = {s.key for s in generate(new, SMALL)}
    for sketch in generate(old, SMALL):
        row = sample(sketch, 1, rng).row(0)
        steps, decisions = rename(sketch.steps, row, names_of(old), new)
        again = sketch_from_steps(new, steps, sketch.variant, SMALL)
        assert again.key in expected
        assert {d.name for d in again.decisions} == set(decisions)
        assert sorted(decisions.values()) == sorted(row.values())


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_step_kind_survives_there_and_back(name: str, rng: np.random.Generator) -> None:
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
        row = sample(sketch, 1, rng).row(0)
        there = rename(sketch.steps, row, old, with_names(dag, other))
        assert rename(*there, other, dag) == (sketch.steps, row)
        assert rename(sketch.steps, row, old, dag) == (sketch.steps, row)


def test_another_structure_is_refused() -> None:
    dag = WORKLOADS["matmul"]()
    names = names_of(dag)
    with pytest.raises(ScheduleError, match="does not fit this program"):
        rename((), {}, replace(names, inputs=("A",)), dag)

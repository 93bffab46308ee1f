"""Sums of what is sent to places start from the data that they are added to."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.host import host_target
from codegen.passes.start_from import start_from
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import Expr
from sketch.lang.tensor import Tensor, compute, placeholder
from sketch.lower import lower
from sketch.nest.loopnest import LoopNest
from sketch.operators.scatter import Reduction, received, scatter
from sketch.population.population import sample
from sketch.rules.generate import generate
from tests.support.compiled import run_compiled
from tests.support.workloads import random_inputs

HOST = host_target(2)
ROWS, TERMS, COLUMNS = 6, 9, 40


def arrays() -> tuple[Tensor, Tensor, Tensor]:
    places = placeholder((TERMS, 1), "int32", name="places")
    updates = placeholder((TERMS, COLUMNS), name="updates")
    return placeholder((ROWS, COLUMNS), name="data"), places, updates


def lowered(*outputs: Tensor) -> LoopNest:
    (sketch, *_) = generate(ComputeDAG(list(outputs)), HOST)
    return lower(sketch, sample(sketch, 1, np.random.default_rng(0)).row(0))


@pytest.mark.parametrize("function", ["sum", "prod", "max", "min"])
def test_no_workspace_is_left(function: Reduction) -> None:
    data, places, updates = arrays()
    out = scatter(data, places, updates, 0, function, "out")
    nest = lowered(out)
    changed = start_from(nest)
    assert len(nest.workspaces) == 1 and not changed.workspaces
    assert len(changed.roots) == len(nest.roots) - 1


def test_sums_are_those_of_one_loop() -> None:
    """Bit by bit: they start from the data, and terms come in their order."""
    data, places, updates = arrays()
    dag = ComputeDAG([scatter(data, places, updates, 0, "sum", "out")])
    (sketch, *_) = generate(dag, HOST)
    rng = np.random.default_rng(1)
    inputs = random_inputs(dag, rng)
    inputs["places"] = rng.integers(-2, 2, (TERMS, 1)).astype(np.int32)
    found = run_compiled(sketch, sample(sketch, 1, rng).row(0), inputs, HOST)["out"]
    wanted = inputs["data"].copy()
    for place, update in zip(inputs["places"][:, 0], inputs["updates"], strict=True):
        wanted[place] += update
    np.testing.assert_array_equal(found, wanted)


def added(kind: str, data: Tensor, sums: Tensor) -> list[Tensor]:
    def at(body: str) -> Tensor:
        def element(i: Expr, j: Expr) -> Expr:
            return {
                "product": lambda: data[i, j] * sums[i, j],
                "turned": lambda: data[i, COLUMNS - 1 - j] + sums[i, j],
                "scaled": lambda: data[i, j] * 2.0 + sums[i, j],
                "twice": lambda: sums[i, j] + sums[i, j],
                "plain": lambda: data[i, j] + sums[i, j],
            }[body]()

        return compute((ROWS, COLUMNS), element, name=f"out.{body}")

    return [at(body) for body in (["plain", "twice"] if kind == "read again" else [kind])]


@pytest.mark.parametrize("kind", ["product", "turned", "scaled", "twice", "read again"])
def test_others_stay_as_they_are(kind: str) -> None:
    data, places, updates = arrays()
    sums = received(places, updates, 0, ROWS, "sum", "sums")
    nest = lowered(*added(kind, data, sums))
    assert start_from(nest) is nest


def test_data_that_are_computed_are_not_there_yet() -> None:
    data, places, updates = arrays()
    totals = compute((ROWS, COLUMNS), lambda i, j: data[i, j] * 3.0, name="totals")
    sums = received(places, updates, 0, ROWS, "sum", "sums")
    both = [compute((ROWS, COLUMNS), lambda i, j: totals[i, j] + sums[i, j], name="out"), totals]
    nest = lowered(*both)
    assert start_from(nest) is nest

"""Arguments inside larger arrays: every access of one goes there, indices of other reads too."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Network, Value
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.shape import Reshape
from codegen.passes.restride import loosen, restride
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.lower import lower
from sketch.nest.loopnest import LoopNest
from sketch.operators.gather import take
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.verify.nest import verify
from tests.support.cpu_targets import runnable


def _gather() -> LoopNest:
    data, indices = placeholder((10, 4), name="data"), placeholder((6,), "int64", name="indices")
    sketch = generate(ComputeDAG([take(data, indices, 0)]), runnable()[0])[0]
    return lower(sketch, sample(sketch, 1, np.random.default_rng(0)).row(0))


def test_indices_that_are_read_are_moved_too() -> None:
    verify(loosen(_gather(), {"indices"}))
    verify(restride(_gather(), "indices", (3,)))


@pytest.mark.parametrize("column", [0, 2])
def test_rows_are_looked_up_by_a_column_of_ids(column: int) -> None:
    """As an embedding of one of several categories."""
    rng = np.random.default_rng(1)
    net = GraphBuilder("net")
    ids = net.input(Value("ids", (6, 3), "int64"))
    table = net.constant("table", rng.standard_normal((10, 4), dtype=np.float32))
    one = net.add(Slice((0, column), (6, column + 1), (1, 1)), [ids])
    rows = net.add(Gather(0), [table, net.add(Reshape((6,)), [one])])
    network = Network("net", net.finish({"rows": rows}))
    given = {"ids": rng.integers(0, 10, (6, 3))}
    module = autosched.compile(network, threads=2)
    np.testing.assert_array_equal(module.run(given)["rows"], evaluate(network.graph, given)["rows"])

"""Statistics of rows: computed for the row at hand, along the row."""

from __future__ import annotations

import numpy as np

from codegen.host import host_target
from sketch.analysis.access import needs_tiling
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.lower.lower import lower
from sketch.nest.loopnest import Allocate
from sketch.nest.walk import walk
from sketch.operators.normalization import normalize
from sketch.oracle.reference import reference
from sketch.population.population import sample
from sketch.rules.generate import generate
from tests.support.compiled import run_compiled
from tests.support.workloads import random_inputs

ONE = host_target(threads=1)
DAG = ComputeDAG([normalize(placeholder((35, 70), name="x"), (1,), 1e-5, name="y")])


def test_what_a_sum_reads_once_for_all_its_terms_makes_it_no_product() -> None:
    variance = next(op for op in DAG.stages if op.name == "y.variance")
    assert not needs_tiling(variance)


def test_some_sketch_computes_the_statistics_of_one_row_at_a_time() -> None:
    rng = np.random.default_rng(0)
    found = []
    for sketch in generate(DAG, ONE):
        nest = lower(sketch, sample(sketch, 1, rng).row(0))
        nodes = [node for node in walk(nest.roots) if isinstance(node, Allocate)]
        private = {node.buffer.name: int(node.buffer.size) for node in nodes}
        found.append((len(nest.workspaces), private.get("y.mean"), private.get("y.scale")))
    assert (0, 1, 1) in found


def test_every_sketch_of_a_normalisation_computes_what_the_oracle_does() -> None:
    rng = np.random.default_rng(3)
    inputs = random_inputs(DAG, rng)
    expected = reference(DAG, inputs, rng)
    for sketch in generate(DAG, ONE):
        outputs = run_compiled(sketch, sample(sketch, 1, rng).row(0), inputs, ONE)
        assert expected.check({"y": outputs["y"].reshape(35, 70)}) <= 1e-5, sketch.key

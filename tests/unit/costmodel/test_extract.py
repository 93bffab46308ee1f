"""Features: the table, one candidate against a population, and single groups by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.extract import draft_seconds, extract, features_of
from costmodel.extract.analysis import analyse
from costmodel.extract.assemble import program_columns, shared_buffers, statement_columns
from costmodel.extract.statement import statements_of
from costmodel.feature_table import (
    BUFFER_SLOTS,
    FEATURE_COUNT,
    FEATURE_INDEX,
    FEATURE_NAMES,
    FEATURES,
    describe_features,
)
from costmodel.features import Features
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import Axis, Const, Expr, select
from sketch.lang.functions import maximum
from sketch.lang.tensor import Compute, compute, placeholder
from sketch.lower import lower
from sketch.lower.buffers import dense_buffer
from sketch.nest.loopnest import LoopNest, Scope, Store
from sketch.population.population import Population, sample
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from tests.support.targets import SMALL
from tests.support.workloads import matmul_dag


def test_the_table_is_consistent() -> None:
    assert len(set(FEATURE_NAMES)) == len(FEATURES) == FEATURE_COUNT >= 90
    assert all(f.doc and f.unit and f.group for f in FEATURES)
    assert len(describe_features().splitlines()) == FEATURE_COUNT


def test_stages_of_one_name_are_two_statements() -> None:
    y = dense_buffer("y", "float32", (), Scope.OUTPUT)
    stages = [Compute("y", (), (Const(0.0, "float32"),)) for _ in range(2)]
    stores = tuple(Store((y,), (), stage.bodies, stage=stage) for stage in stages)
    found = statements_of(LoopNest("y", (y,), (), stores))
    assert [statement.stage for statement in found] == stages
    assert [statement.name for statement in found] == ["y", "y"]


def test_one_candidate_equals_its_row_of_the_population(
    populations: list[Population], target: Target
) -> None:
    for population in populations:
        dag = population.sketch.dag
        batch = extract(
            lower(population.sketch, population.columns()), population.count, dag, target
        )
        for index in range(population.count):
            single = extract(lower(population.sketch, population.row(index)), 1, dag, target)
            assert single.statements == batch.statements
            for s, name in enumerate(batch.statements):
                both = zip(
                    FEATURE_NAMES, single.values[s, :, 0], batch.values[s, :, index], strict=True
                )
                wrong = {f: (a, b) for f, a, b in both if not np.isclose(a, b, rtol=1e-5)}
                assert not wrong, f"{name}, row {index}"


def test_recorded_features_equal_those_of_a_nest(
    populations: list[Population], target: Target
) -> None:
    for population in populations:
        for rows in (population, population.take([0]), population.take(np.arange(0))):
            nest = lower(rows.sketch, rows.columns())
            direct = extract(nest, rows.count, rows.sketch.dag, target)
            for _ in range(2):  # without a tape, and with one
                found = features_of(rows)
                assert found.statements == direct.statements
                np.testing.assert_array_equal(found.values, direct.values)


@pytest.mark.parametrize("target", [SMALL, cuda_target("h200")], ids=["cpu", "gpu"])
def test_a_row_alone_has_the_features_that_it_has_among_others(target: Target) -> None:
    """A batch has many sketches of one row each, and teaches what a search then asks."""
    for index in range(3):
        for sketch in generate(matmul_dag(8, 24, 32), target):  # whose features nobody has asked
            rows = sample(sketch, 4, np.random.default_rng(0))
            alone = features_of(rows.take([index])).values
            np.testing.assert_array_equal(alone[:, :, 0], features_of(rows).values[:, :, index])


def test_drafts_that_are_recorded_alone_are_those_that_come_with_all_features() -> None:
    for sketch in generate(matmul_dag(8, 24, 32), SMALL):
        rows = sample(sketch, 128, np.random.default_rng(0))
        features_of(rows)  # so many are recorded
        fresh = Population(replace(sketch), rows.values)
        np.testing.assert_array_equal(draft_seconds(fresh), draft_seconds(rows))


def test_values_are_finite_and_shares_are_shares(
    populations: list[Population], target: Target
) -> None:
    for population in populations:
        nest = lower(population.sketch, population.columns())
        features = extract(nest, population.count, population.sketch.dag, target)
        assert np.isfinite(features.values).all()
        for share in ("tail_valid", "tail_executed", "padding_valid", "lane_use"):
            column = features.column(share)
            assert (column > 0).all() and (column <= 1).all(), share
        assert (features.column("imbalance") >= 1).all()
        draft = draft_seconds(population)
        np.testing.assert_array_equal(draft_seconds(population, once=True), draft)
        np.testing.assert_allclose(draft, features.draft_seconds(), rtol=1e-5)
        assert (draft > 0).all()


def test_every_feature_is_computed(populations: list[Population], target: Target) -> None:
    population = populations[0]
    nest = lower(population.sketch, population.columns())
    statements = statements_of(nest)
    analyses = [analyse(statement, np.arange(population.count), target) for statement in statements]
    computed = set(program_columns(analyses, 1.0, 1))
    for analysis in analyses:
        computed |= set(statement_columns(analysis, shared_buffers(statements), {}))
    assert computed <= set(FEATURE_NAMES)
    slots = {name for name in FEATURE_NAMES if name.startswith("buffer")}
    operations = {name for name in FEATURE_NAMES if name.startswith("ops_")}
    elsewhere = {name for name in FEATURE_NAMES if name.startswith(("gpu_", "unit_"))}
    assert set(FEATURE_NAMES) - slots - operations - elsewhere <= computed
    assert len(slots) % BUFFER_SLOTS == 0


def test_output_trips_inside_the_extents_are_the_elements(
    populations: list[Population], target: Target
) -> None:
    for population in populations:
        nest = lower(population.sketch, population.columns())
        dag = population.sketch.dag
        features = extract(nest, population.count, dag, target)
        output = dag.outputs[0]
        expected = math.prod(output.shape)
        if f"{output.name}.local" not in features.statements:
            expected *= math.prod(axis.extent for axis in dag.stages[-1].reduce_axes)
        row = features.statements.index(output.name)
        valid = features.column("trips")[row] * features.column("tail_valid")[row]
        np.testing.assert_allclose(valid, expected, rtol=1e-3)
        assert (features.column("overcompute") > 0.5).all()


def test_features_are_the_same_twice(populations: list[Population], target: Target) -> None:
    population = populations[-1]
    nest = lower(population.sketch, population.columns())
    a, b = (extract(nest, population.count, population.sketch.dag, target) for _ in range(2))
    assert np.array_equal(a.values, b.values)


def test_the_target_matters(populations: list[Population], target: Target) -> None:
    population = populations[0]
    nest = lower(population.sketch, population.columns())
    many = extract(nest, population.count, population.sketch.dag, target.with_threads(8))
    few = extract(nest, population.count, population.sketch.dag, target)
    assert (many.column("tasks_per_thread") < few.column("tasks_per_thread")).all()
    assert (many.column("hw_threads") == 8).all()


def test_an_empty_nest_is_an_error(target: Target, dag: ComputeDAG) -> None:
    with pytest.raises(CostModelError, match="no store"):
        extract(LoopNest("empty", (), (), ()), 1, dag, target)


def test_rows_are_programs_by_statements() -> None:
    values = np.zeros((2, FEATURE_COUNT, 3), dtype=np.float32)
    values[1, FEATURE_INDEX["flops"]] = [5, 6, 7]
    features = Features(values, ("a", "b"))
    assert features.rows().shape == (6, FEATURE_COUNT)
    assert features.rows()[:, FEATURE_INDEX["flops"]].tolist() == [0, 5, 0, 6, 0, 7]
    assert features.offsets().tolist() == [0, 2, 4, 6]
    assert features.take(np.array([2])).column("flops").tolist() == [[0], [7]]


def test_features_of_a_wrong_shape_are_an_error() -> None:
    with pytest.raises(CostModelError, match="2 statements"):
        Features(np.zeros((1, FEATURE_COUNT, 3), dtype=np.float32), ("a", "b"))


def test_a_machine_without_caches_has_finite_features() -> None:
    target = replace(SMALL, l1_bytes=0, l2_bytes=0, l3_bytes=0)
    sketch = generate(matmul_dag(), target)[0]
    features = features_of(sample(sketch, 8, np.random.default_rng(0)))
    assert np.isfinite(features.values).all()


@pytest.mark.parametrize("machine", [SMALL, cuda_target("sm_80")], ids=lambda t: t.kind)
def test_a_read_that_never_happens_has_features(machine: Target) -> None:
    x = placeholder((1, 3), name="x")

    def body(i: Axis, j: Axis) -> Expr:
        place = maximum(i % 4, 2) - 1
        return select(place < 1, x[place, j], 0.0)

    dag = ComputeDAG([compute((9, 3), body, name="y")])
    for sketch in generate(dag, machine):
        found = features_of(sample(sketch, 4, np.random.default_rng(0)))
        assert np.isfinite(found.values).all()

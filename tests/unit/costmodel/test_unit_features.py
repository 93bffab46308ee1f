"""Features of tensor units: by hand for small programs, zeros without one, equal on all paths."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from costmodel.extract import extract, features_of
from costmodel.feature_table import FEATURES
from costmodel.features import Features
from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import size_of
from sketch.lower import lower
from sketch.population.population import Population, from_rows, sample
from sketch.rules.generate import generate
from sketch.rules.unit_fit import unit_of
from sketch.schedule.sketch import Sketch
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from sketch.target.units import units_of
from tests.support.cuda_programs import feasible_rows
from tests.support.units import BYTES, HALVES, SINGLES, TILES, WIDE, int_product, on_units

H200 = cuda_target("h200")
NAMES = tuple(feature.name for feature in FEATURES if feature.group == "unit")
CYCLE_OPERATIONS = 2.0
"""Vector instructions that start in a cycle of the targets here."""


def sketch_on(name: str, dag: ComputeDAG, target: Target) -> Sketch:
    """The first sketch whose unit's name starts so."""
    named = ((unit_of(sketch, units_of(target)), sketch) for sketch in on_units(dag, target))
    return next(sketch for unit, sketch in named if unit is not None and unit.name.startswith(name))


def ones(sketch: Sketch, **others: int) -> Population:
    """All decisions 1, those of these names another number: ``i3`` is ``C.i@3``."""
    row = {decision.id: 1 for decision in sketch.decisions}
    row |= {sketch.decision(f"C.{name[0]}@{name[1]}"): n for name, n in others.items()}
    return from_rows(sketch, [row])


def on_unit(features: Features) -> Mapping[str, float]:
    """The columns of the one statement that a unit computes, of one program."""
    share = features.column("unit_share")[:, 0]
    (place,) = np.flatnonzero(share)
    return {name: float(features.column(name)[place, 0]) for name in NAMES}


def test_vectors_share_a_row_of_the_second_operand() -> None:
    """Of 12 rows and 32 columns in 64 terms: groups of 4 bytes of a row, and of 16 columns."""
    sketch = sketch_on("vpdpbusd", int_product(12, 32, 64), WIDE)
    for rows in (1, 3, 6):
        found = on_unit(features_of(ones(sketch, i3=rows)))
        steps = 12 * 2 * 16
        assert found["unit_loaded_bytes"] == steps * 4 + steps // rows * 64
        assert found["unit_stored_bytes"] == 12 * 32 * 4
        assert found["unit_share"] == 1.0
        rate = 2 * 16 * 4 * CYCLE_OPERATIONS * WIDE.rates.hertz
        assert found["unit_rate"] == pytest.approx(rate)


def test_tiles_have_operands_of_whole_registers() -> None:
    """Of 32 rows and 32 columns in 128 terms: four results, and two products for each."""
    sketch = sketch_on("tdpbusd", int_product(32, 32, 128), TILES)
    for rows in (1, 2):
        found = on_unit(features_of(ones(sketch, i3=rows)))
        assert found["unit_loaded_bytes"] == 8 * 1024 + 8 // rows * 1024
        assert found["unit_stored_bytes"] == 32 * 32 * 4
        rate = 2 * 16 * 16 * 64 / TILES.rates.tile_product * TILES.rates.hertz
        assert found["unit_rate"] == pytest.approx(rate)


def test_results_in_memory_are_stored_and_loaded_at_each_visit() -> None:
    """A tile of them waits while others are computed, for each part of the terms."""
    sketch = sketch_on("vpdpbusd", int_product(64, 64, 256), WIDE)
    rows = sample(sketch, 256, np.random.default_rng(0))
    stored = features_of(rows).column("unit_stored_bytes").max(axis=0)
    once = stored[stored == 64 * 64 * 4]
    assert once.size
    assert (stored % (64 * 64 * 4) == 0).any() and (stored >= once[0]).all()


@pytest.mark.parametrize(
    ("name", "types", "block", "rate"),
    [
        ("mma.m16n8k16", HALVES, (16, 8, 16), 0.5),
        ("mma.m16n8k8", SINGLES, (16, 8, 8), 0.5),
        ("wgmma.m64n32", HALVES, (64, 32, 16), 1.0),
        ("wgmma.m64n32", BYTES, (64, 32, 32), 1.0),
    ],
)
def test_warps_load_blocks(
    name: str, types: tuple[str, str], block: tuple[int, int, int], rate: float
) -> None:
    """Four warps those of each product, one those that its own products do not share."""
    dag = int_product(64, 64, 64, types)
    sketch = sketch_on(name, dag, H200)
    rows = feasible_rows(sketch, 8, np.random.default_rng(0))
    features = features_of(rows)
    (place,) = np.flatnonzero(features.column("unit_share")[:, 0])
    size = size_of(dag.inputs[0].dtype)
    m, n, k = block
    each = (m + n) * k * size
    trips, loaded = (features.column(x)[place] for x in ("trips", "unit_loaded_bytes"))
    products = trips / math.prod(block)
    assert (loaded <= products * each * (1 + 1e-6)).all() and (loaded > 0).all()
    if name.startswith("wgmma"):
        np.testing.assert_allclose(loaded, products * each, rtol=1e-6)
    else:
        alone = features.column("gpu_independent")[place] == 4  # results of one product
        np.testing.assert_allclose(loaded[alone], (products * each)[alone], rtol=1e-6)
    macs = H200.card.unit_macs(size) * (H200.card.warp_share if name.startswith("mma") else 1.0)
    found = features.column("unit_rate")[place]
    np.testing.assert_allclose(found, 2.0 * macs * H200.card.hertz, rtol=1e-6)


@pytest.mark.parametrize("target", [WIDE, H200], ids=lambda target: target.kind)
def test_what_vectors_and_threads_compute_has_zeros(target: Target) -> None:
    dag = int_product(16, 32, 32)
    units = {sketch.key for sketch in on_units(dag, target)}
    for sketch in generate(dag, target):
        features = features_of(sample(sketch, 4, np.random.default_rng(0)))
        assert all((features.column(x).max() > 0) == (sketch.key in units) for x in NAMES)


@pytest.mark.parametrize("target", [WIDE, TILES, H200], ids=["vectors", "tiles", "cuda"])
def test_recorded_features_equal_those_of_a_nest(target: Target) -> None:
    dag = int_product(40, 48, 96)
    for sketch in on_units(dag, target)[::7]:
        rows = sample(sketch, 4, np.random.default_rng(1))
        direct = extract(lower(sketch, rows.columns()), rows.count, dag, target)
        assert np.isfinite(direct.values).all()
        for _ in range(2):  # without a tape, and with one
            np.testing.assert_array_equal(features_of(rows).values, direct.values)
        single = extract(lower(sketch, rows.row(2)), 1, dag, target)
        np.testing.assert_allclose(single.values[:, :, 0], direct.values[:, :, 2], rtol=1e-5)

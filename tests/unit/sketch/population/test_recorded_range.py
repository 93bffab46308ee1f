"""What rules generate is taken when it comes from a file, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sketch.dag.dag import ComputeDAG
from sketch.population.recorded_range import check_structure
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from tests.support.targets import AVX512
from tests.support.units import BYTES, HALVES, SINGLES, TILES, int_product, on_units
from tests.support.workloads import WORKLOADS

H200 = cuda_target("h200")


@pytest.mark.parametrize("target", [AVX512, H200], ids=["cpu", "gpu"])
@pytest.mark.parametrize("make", WORKLOADS.values(), ids=WORKLOADS)
def test_workloads(make: Callable[[], ComputeDAG], target: Target) -> None:
    for sketch in generate(make(), target):
        check_structure(sketch)


@pytest.mark.parametrize("target", [TILES, H200], ids=["tiles", "gpu"])
@pytest.mark.parametrize("types", [BYTES, HALVES, SINGLES], ids=["bytes", "halves", "singles"])
@pytest.mark.parametrize("terms", [16, 64, 72])
def test_short_sums_on_tensor_units(terms: int, types: tuple[str, str], target: Target) -> None:
    for sketch in on_units(int_product(64, 64, terms, types), target):
        check_structure(sketch)

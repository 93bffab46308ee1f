"""Contractions on the tensor units of GPUs: which unit, along which axes, beside what is plain."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.extract import draft_seconds
from sketch.analysis.contraction import contraction_of
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import cast
from sketch.lang.functions import round_tf32
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.population.feasible import feasible
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.rules.unit_fit import unit_of
from sketch.rules.warp_fit import WarpFit, warp_fit
from sketch.schedule.loop import LoopRole
from sketch.schedule.sketch import Sketch
from sketch.schedule.steps import SplitReduce, Tensorize
from sketch.target.gpu_targets import cuda_target
from sketch.target.units import units_of
from sketch.variants.zero_padded import zero_padded
from tests.support.units import HALVES, SINGLES, int_product, int_window, on_units
from tests.support.workloads import matmul_dag

H200 = cuda_target("h200")
ONE_WARP = [unit for unit in units_of(H200) if not unit.reads_shared]
_ROWS = 512


def fit_of(shape: tuple[int, int, int], types: tuple[str, str] = HALVES) -> WarpFit | None:
    (stage,) = int_product(*shape, types).stages
    return warp_fit(stage, ONE_WARP)


def test_a_unit_is_along_rows_columns_and_terms() -> None:
    fit = fit_of((256, 128, 512))
    assert fit is not None
    assert (fit.unit.name, fit.rows, fit.columns) == ("mma.m16n8k16.bf16", 0, 1)
    assert fit.terms.extent == 512
    assert [dim for _, dim in fit.dims] == [1, 0]


def test_the_longest_unit_whose_terms_there_are() -> None:
    names = {k: fit.unit.name for k in (8, 16, 1000) if (fit := fit_of((64, 64, k))) is not None}
    assert names == {
        8: "mma.m16n8k8.bf16", 16: "mma.m16n8k16.bf16", 1000: "mma.m16n8k16.bf16",
    }  # fmt: skip


def test_few_rows_are_the_columns_of_a_unit() -> None:
    fit = fit_of((8, 512, 64), ("uint8", "int8"))
    assert fit is not None
    assert (fit.unit.name, fit.rows, fit.columns) == ("mma.m16n8k32.s8.u8", 1, 0)


def test_hardly_any_results_are_not_worth_a_unit() -> None:
    assert fit_of((1, 512, 64)) is None


def test_windows_that_leave_taps_out_are_not_computed_on_units_as_they_are() -> None:
    (stage,) = int_window(5, 32, 16, 3).stages
    assert contraction_of(stage) is not None
    assert warp_fit(stage, units_of(H200)) is None


def test_float32_stays_float32() -> None:
    assert on_units(matmul_dag(256, 256, 256), H200) == []


def test_float32_that_is_rounded_is_multiplied_in_tf32() -> None:
    fit = fit_of((256, 128, 512), SINGLES)
    assert fit is not None
    assert (fit.unit.name, fit.rows, fit.columns) == ("mma.m16n8k8.tf32", 0, 1)
    units = [
        unit_of(s, units_of(H200)) for s in on_units(int_product(256, 128, 512, SINGLES), H200)
    ]
    assert {unit and unit.name for unit in units} == {
        "mma.m16n8k8.tf32", "wgmma.m64n256k8.tf32", "wgmma.m64n128k8.tf32", "wgmma.m64n56k8.tf32",
    }  # fmt: skip


def test_float32_of_which_one_factor_is_rounded_stays_float32() -> None:
    lhs, rhs = (placeholder((64, 64), name=name) for name in "AB")
    k = reduce_axis(64, "k")

    def body(i, j):
        return reducers.sum(round_tf32(lhs[i, k]) * rhs[k, j], k)

    assert on_units(ComputeDAG([compute((64, 64), body, name="C")]), H200) == []


def test_plain_sketches_are_offered_beside() -> None:
    dag = int_product(1024, 1024, 1024, HALVES)
    tensor = on_units(dag, H200)
    assert tensor and len(generate(dag, H200)) > len(tensor)
    units = [unit_of(sketch, units_of(H200)) for sketch in tensor]
    assert {unit and unit.name for unit in units} == {
        "mma.m16n8k16.bf16", "wgmma.m64n256k16.bf16", "wgmma.m64n64k16.bf16",
        "wgmma.m64n128k16.bf16",
    }  # fmt: skip


def test_a_warp_has_the_lanes_of_a_unit() -> None:
    sketch, *_ = on_units(int_product(256, 256, 256, HALVES), H200)
    (step,) = [step for step in sketch.steps if isinstance(step, Tensorize)]
    plan = sketch.program.stage(step.stage)
    assert [plan.role(loop) for loop in step.loops] == [LoopRole.UNIT]


def best(sketch: Sketch) -> float:
    rows = sample(sketch, _ROWS, np.random.default_rng(0))
    fits = feasible(sketch, rows.columns())
    assert fits.all()
    return float(draft_seconds(rows).min())


@pytest.mark.parametrize("card", ["t4", "a100", "h200", "b200", "rtx4090"])
@pytest.mark.parametrize("shape", [(4096, 4096, 4096), (128, 768, 768), (1000, 1000, 1000)])
def test_the_draft_prefers_units(card: str, shape: tuple[int, int, int]) -> None:
    target = cuda_target(card)
    dag = int_product(*shape, ("float16", "float16"))
    tensor = {sketch.key for sketch in on_units(dag, target)}
    times = {sketch.key: best(sketch) for sketch in generate(dag, target)}
    plain = min(time for key, time in times.items() if key not in tensor)
    assert min(times[key] for key in tensor) < plain


def group_units(dag: ComputeDAG) -> list[str]:
    """The units of four warps that are offered for a program."""
    found = [unit_of(sketch, units_of(H200)) for sketch in on_units(dag, H200)]
    return [unit.name for unit in found if unit is not None and unit.reads_shared]


def test_units_of_four_warps_compute_little_that_nobody_wants() -> None:
    assert widths(4096, 96, 512)[:2] == [96, 32]
    assert widths(4096, 1000, 512)[:2] == [200, 72]
    assert widths(8, 8, 512) == []


def widths(m: int, n: int, k: int) -> list[int]:
    """The columns of the units of four warps that are offered for a product."""
    names = group_units(int_product(m, n, k, HALVES))
    return [unit.n for name in names for unit in units_of(H200) if unit.name == name]


def test_narrower_units_give_each_processor_a_tile() -> None:
    """Of 8192 rows half the widest does, of 512 those of 64 columns have 96 tiles only."""
    assert widths(8192, 8192, 8192) == [256, 128]
    assert widths(512, 768, 768)[:2] == [256, 48]


def test_sums_in_parts_are_on_units_of_four_warps_too() -> None:
    found = [
        sketch
        for sketch in on_units(int_product(64, 96, 4096, HALVES), H200)
        if any(isinstance(step, SplitReduce) for step in sketch.steps)
    ]
    assert any(unit.reads_shared for s in found if (unit := unit_of(s, units_of(H200))) is not None)


@pytest.mark.parametrize("constant", [True, False])
def test_units_of_four_warps_read_rows_of_terms(constant: bool) -> None:
    """A constant is laid out so ahead of time; elsewhere terms have to lie in order."""
    dag = int_product(256, 256, 256, HALVES)
    (lhs, rhs) = dag.inputs
    assert bool(group_units(dag))
    weights = placeholder(rhs.shape, rhs.dtype, name="W", constant=constant)
    r = reduce_axis(256, "r")
    body = lambda i, j: reducers.sum(  # noqa: E731
        cast(lhs[i, r], "float32") * cast(weights[r, j], "float32"), r
    )
    assert bool(group_units(ComputeDAG([compute((256, 256), body)]))) is constant


def test_windows_are_on_units_of_four_warps_where_rows_follow_each_other() -> None:
    """Of a stride of 2 a tile has every second row of its image."""
    framed = zero_padded(int_window(40, 32, 16, 3, HALVES))
    assert framed is not None
    assert bool(group_units(framed))
    assert bool(group_units(row_of_windows(1)))
    assert not group_units(row_of_windows(2))


def row_of_windows(stride: int) -> ComputeDAG:
    """Sums over two pixels of one row."""
    data = placeholder((80, 32), "int8", name="A")
    weight = placeholder((2, 32, 16), "int8", name="B", constant=True)
    q, c = reduce_axis(2, "q"), reduce_axis(32, "c")

    def body(w, o):
        pixel, factor = data[w * stride + q, c], weight[q, c, o]
        return reducers.sum(cast(pixel, "int32") * cast(factor, "int32"), (q, c))

    return ComputeDAG([compute((39, 16), body, name="C")])


@pytest.mark.parametrize("types", [HALVES, SINGLES, ("float16", "float16"), ("uint8", "int8")])
def test_the_draft_prefers_units_of_four_warps(types: tuple[str, str]) -> None:
    dag = int_product(8192, 8192, 8192, types)
    times: dict[bool, float] = {}
    for sketch in on_units(dag, H200):
        unit = unit_of(sketch, units_of(H200))
        assert unit is not None
        seconds = times.get(unit.reads_shared, np.inf)
        times[unit.reads_shared] = min(seconds, best(sketch))
    assert times[True] < times[False]

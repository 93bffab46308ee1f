"""Other algorithms on GPUs: few launches, the oracle's results, no spills in the draft's picks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.build import build, emit
from codegen.cuda.kernel import CudaSource
from codegen.cuda.nvrtc import compile_source, missing_compiler
from codegen.gpu.emulation.checked import compile_checked
from costmodel.extract import draft_seconds
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.lower import lower
from sketch.nest.loopnest import LoopNest, Scope
from sketch.nest.walk import store_loads, stores
from sketch.operators.conv import conv2d
from sketch.oracle.interpret import interpret
from sketch.population.feasible import feasible
from sketch.population.population import sample
from sketch.rules.backend import GPU_SKETCHES
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target
from sketch.variants import variants_of
from tests.support.cuda_programs import feasible_nests
from tests.support.emulate import COMPILER, compile_programs
from tests.support.ptx.run import ptx_of, run_ptx
from tests.support.workloads import conv2d_relu, prepared, random_inputs

H200 = cuda_target("h200")
_MOST_LAUNCHES = 3
_ROWS = 128
# Images, channels and filters: one block of products, uneven tiles, sums in parts.
SMALL = {"even": (8, 16, 16), "odd": (7, 16, 24), "parts": (5, 64, 32)}
# Layers of ResNet-18.
LAYERS = {"56": (56, 64, 64), "28": (28, 128, 128), "14": (14, 256, 256), "7": (7, 512, 512)}
# The first and the last in every run.
_layers = [*("56", "7"), *(pytest.param(name, marks=pytest.mark.slow) for name in ("28", "14"))]

needs_nvrtc = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))


def dilated() -> ComputeDAG:
    """A convolution whose taps meet every other element."""
    weight = placeholder((3, 3, 16, 16), name="w", constant=True)
    data = placeholder((1, 9, 7, 16), name="x")
    return ComputeDAG([conv2d(data, weight, 1, 2, dilation=2, name="y")])


def variants(dag: ComputeDAG) -> Mapping[str, ComputeDAG]:
    return variants_of(dag, GPU_SKETCHES.algorithms)


def sources(dag: ComputeDAG, rows: int, rng: np.random.Generator) -> list[CudaSource]:
    """Random feasible rows of every sketch."""
    found = []
    for sketch in generate(dag, H200):
        drawn = sample(sketch, 16 * rows, rng)
        fits = np.flatnonzero(feasible(sketch, drawn.columns()))[:rows]
        found += [emit(lower(sketch, drawn.row(int(index))), H200) for index in fits]
    return found


def pick(shape: tuple[int, int, int], variant: str | None) -> tuple[float, CudaSource]:
    """Seconds and source of what the draft model likes best; of the direct sum for None."""
    seconds, nest = pick_nest(shape, variant)
    return seconds, emit(nest, H200)


@cache
def pick_nest(shape: tuple[int, int, int], variant: str | None) -> tuple[float, LoopNest]:
    """As ``pick``, lowered."""
    dag = conv2d_relu(*shape)
    dag = dag if variant is None else variants(dag)[variant]
    best: tuple[float, LoopNest] | None = None
    for sketch in generate(dag, H200):
        drawn = sample(sketch, _ROWS, np.random.default_rng(0))
        rows = drawn.take(np.flatnonzero(feasible(sketch, drawn.columns())))
        seconds = draft_seconds(rows)
        chosen = int(np.argmin(seconds))
        if best is None or seconds[chosen] < best[0]:
            best = float(seconds[chosen]), lower(sketch, rows.row(chosen))
    assert best is not None
    return best


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA text with")
@pytest.mark.parametrize("rows", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_variants_equal_the_oracle_in_both_orders(
    rows: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    cases = [
        (direct, dag, source)
        for direct in (*(conv2d_relu(*shape) for shape in SMALL.values()), dilated())
        for dag in variants(direct).values()
        for source in sources(dag, rows, rng)
    ]
    assert len(cases) >= 2 * len(SMALL)
    programs = compile_programs([source for _, _, source in cases], tmp_path)
    for (direct, dag, _), program in zip(cases, programs, strict=True):
        assert len(program.source.launches) <= _MOST_LAUNCHES
        inputs = random_inputs(direct, rng)
        ((name, expected),) = interpret(direct, inputs).items()
        given = prepared(dag, inputs)
        forward, backward = (program.run(given, reverse=order)[name] for order in (False, True))
        assert np.array_equal(forward, backward)
        np.testing.assert_allclose(
            forward.reshape(expected.shape), expected, rtol=0, atol=1e-5 * np.abs(expected).max()
        )


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA text with")
def test_blocks_of_tiles_touch_what_is_theirs(tmp_path: Path, rng: np.random.Generator) -> None:
    """One launch, in emulation that checks bounds, races, and that what is read was written."""
    direct = conv2d_relu(*SMALL["odd"])
    dag = variants(direct)["winograd-4"]
    programs = compile_checked(sources(dag, 4, rng), tmp_path)
    inputs = random_inputs(direct, rng)
    ((name, expected),) = interpret(direct, inputs).items()
    for program in programs:
        assert len(program.source.launches) == 1
        for order in (False, True):
            found = program.run(prepared(dag, inputs), reverse=order)[name]
            error = np.abs(found.reshape(expected.shape) - expected).max()
            assert error <= 1e-5 * np.abs(expected).max()


@needs_nvrtc
@pytest.mark.parametrize(
    "shape", [(4, 16, 16), pytest.param(SMALL["parts"], marks=pytest.mark.slow)], ids=str
)
def test_what_the_compiler_makes_of_variants_equals_the_oracle(
    shape: tuple[int, int, int], rng: np.random.Generator
) -> None:
    direct = conv2d_relu(*shape)
    inputs = random_inputs(direct, rng)
    ((name, expected),) = interpret(direct, inputs).items()
    for dag in variants(direct).values():
        source = sources(dag, 1, rng)[0]
        found = run_ptx(source, ptx_of(source.text), prepared(dag, inputs))[name]
        np.testing.assert_allclose(
            found.reshape(expected.shape), expected, rtol=0, atol=1e-5 * np.abs(expected).max()
        )


@pytest.mark.parametrize("layer", _layers)
def test_filters_of_resnet_have_variants_that_fill_the_card(layer: str) -> None:
    shape = LAYERS[layer]
    card = H200.card
    peak = 2 * card.fma_lanes * H200.threads * card.hertz
    for name, dag in variants(conv2d_relu(*shape)).items():
        seconds, source = pick(shape, name)
        assert seconds > dag.flops / peak
        assert len(source.launches) <= _MOST_LAUNCHES
        for launch in source.launches:
            # a block of tiles keeps few of them for each of its threads
            least = H200.threads * 3 / 4 if name == "winograd-4" else H200.threads
            assert launch.block % H200.warp_size == 0 and launch.grid >= least, name
            assert launch.block >= 128 or name != "winograd-4"


@pytest.mark.parametrize("layer", _layers)
def test_convolutions_are_matrix_products_whose_rows_are_never_stored(layer: str) -> None:
    """Implicit GEMM: sums over channels and taps, of tiles in shared memory that are filled from
    the image itself; what is stored between kernels is made of sums.
    """
    shape = LAYERS[layer]
    for name in {None, "implicit-gemm"} & {None, *variants(conv2d_relu(*shape))}:
        _, nest = pick_nest(shape, name)
        (product, *_) = (found for found in stores(nest.roots) if found[0].reducer is not None)
        store, loops = product
        assert {load.buffer.scope for load in store_loads(store)} == {Scope.SHARED}
        summed = {id(loop.var.axis) for loop in loops if loop.axis_kind == "reduce"}
        assert len(summed) == 3  # channels and both taps
        fills = [s for s, _ in stores(nest.roots) if s.targets[0].scope is Scope.SHARED]
        sources = {load.buffer.scope for fill in fills for load in store_loads(fill)}
        assert sources == {Scope.INPUT, Scope.CONSTANT}
        writers = [s for s, _ in stores(nest.roots) if s.targets[0].scope is Scope.WORKSPACE]
        read = {load.buffer.scope for writer in writers for load in store_loads(writer)}
        assert read <= {Scope.LOCAL}


def test_one_launch_competes_for_large_images() -> None:
    assert pick(LAYERS["56"], "winograd-4")[0] < 1.2 * pick(LAYERS["56"], None)[0]


@needs_nvrtc
@pytest.mark.parametrize("layer", [pytest.param("28", marks=pytest.mark.slow), "56"])
def test_blocks_of_tiles_that_the_draft_picks_keep_their_sums_in_registers(layer: str) -> None:
    _, source = pick(LAYERS[layer], "winograd-4")
    ((_, resources),) = compile_source(source, H200.arch)[1]
    assert not resources.spills


# With few channels a direct product through pipelined tiles is as good.
@pytest.mark.parametrize("layer", _layers[1:])
def test_the_draft_prefers_few_products(layer: str) -> None:
    assert pick(LAYERS[layer], "winograd")[0] < pick(LAYERS[layer], None)[0]


@needs_nvrtc
@pytest.mark.parametrize("variant", sorted(variants(conv2d_relu(*LAYERS["7"]))))
def test_picks_keep_their_values_in_registers(variant: str) -> None:
    _, source = pick(LAYERS["7"], variant)
    _, resources = compile_source(source, H200.arch)
    assert not any(found.spills for _, found in resources)


@needs_nvrtc
@pytest.mark.parametrize("arch", [pytest.param("sm_80", marks=pytest.mark.slow), "sm_90"])
def test_random_blocks_of_tiles_compile_within_the_limits(
    arch: str, rng: np.random.Generator
) -> None:
    target = cuda_target(arch)
    for nest in feasible_nests(variants(conv2d_relu(*LAYERS["28"]))["winograd-4"], 1, rng, target):
        ((_, resources),) = build(nest, target).resources
        assert resources.registers <= target.registers and not resources.spills

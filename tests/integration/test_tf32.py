"""tf32: the same rounding everywhere, products on units in it, and networks that are given it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Network, Value
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import UnaryOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.shape import Reshape
from autosched.graph.optimize import optimize
from autosched.graph.reduced import with_reduced
from autosched.system.user_warnings import AutoschedWarning
from codegen.cuda.build import emit
from codegen.cuda.kernel import CudaSource
from codegen.cuda.nvrtc import missing_compiler
from codegen.gpu.emulation.checked import compile_checked
from codegen.gpu.emulation.library import compiler
from sketch.dag.dag import ComputeDAG
from sketch.errors import ExpressionError, TargetError
from sketch.lang import functions
from sketch.lang.scalar_functions import rounded_tf32
from sketch.lang.tensor import compute, placeholder
from sketch.lower import lower
from sketch.lower.packing import preparations
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target, emulated
from tests.support.compiled import random_run
from tests.support.cpu_targets import instruction_sets
from tests.support.cuda_programs import feasible_rows
from tests.support.ptx.run import ptx_of, run_ptx
from tests.support.units import SINGLES, int_arrays, int_product, on_units, oracle

H200 = cuda_target("h200")
EMULATED = emulated(H200)
COUNT = 333

needs_nvrtc = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")


def numbers() -> np.ndarray:
    """Floats of all sizes: ties, neighbours of ties, limits, denormal ones, none at all."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, COUNT, np.uint32)
    limits = [
        0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF, 0x7F7FFFFF,
        0x7F7FEFFF, 0x7F7FF000, 0xFF7FF000, 0x3F801000, 0x3F800FFF, 0x3F803000, 0xBF801000,
        0x00000001, 0x00000FFF, 0x00001000, 0x007FFFFF, 0x807FEFFF, 0x00800000,
    ]  # fmt: skip
    bits[: len(limits)] = limits
    return bits.view(np.float32)


def expected() -> np.ndarray:
    """By the bits: half of the last of 10 fraction bits, added to the size, carries."""
    x = numbers()
    with np.errstate(over="ignore"):
        near = (x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(x), x, near.view(np.float32))


def assert_rounded(found: np.ndarray) -> None:
    same = found.view(np.uint32) == expected().view(np.uint32)
    wrong = ~(same | (np.isnan(found) & np.isnan(expected())))
    assert not wrong.any(), (numbers()[wrong], found[wrong], expected()[wrong])


def rounding() -> ComputeDAG:
    x = placeholder((COUNT,), "float32", "x")
    return ComputeDAG([compute((COUNT,), lambda i: functions.round_tf32(x[i]), name="y")])


def test_the_oracle_rounds() -> None:
    with np.errstate(all="ignore"):
        assert_rounded(rounded_tf32(numbers().astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize("target", instruction_sets(), ids=lambda t: t.label)
def test_cpus_round(target) -> None:
    assert_rounded(random_run(rounding(), {"x": numbers()}, target, 0, 0)["y"])


@needs_compiler
@needs_nvrtc
def test_gpus_round(tmp_path: Path) -> None:
    (sketch, *_) = generate(rounding(), H200)
    row = feasible_rows(sketch, 1, np.random.default_rng(0)).row(0)
    source = emit(lower(sketch, dict(row)), H200)
    (program,) = compile_checked([source], tmp_path, "-O1")
    assert_rounded(program.run({"x": numbers()})["y"])
    assert_rounded(run_ptx(source, ptx_of(source.text), {"x": numbers()})["y"])


def test_other_types_are_refused() -> None:
    x = placeholder((4,), "float64", "x")
    with pytest.raises(ExpressionError, match="needs a float32, got float64"):
        functions.round_tf32(x[0])


def without(pattern: str, by: str = "") -> Callable[[str], str]:
    return lambda text: re.sub(pattern, by, text)


_ROUNDED = r"cvt\.rna\.tf32\.f32 %0, %1;"
FAULTS: Mapping[str, Callable[[str], str]] = {
    "first operand is cut off": without(_ROUNDED + r'" : "=r"\(a', 'mov.b32 %0, %1;" : "=r"(a'),
    "second operand is cut off": without(_ROUNDED + r'" : "=r"\(b', 'mov.b32 %0, %1;" : "=r"(b'),
    "terms of other lanes": without(r"(?<=warp_term = )threadIdx.x", "threadIdx.x / 4"),
    "operands are one": without(r"&B_cache_words\[", "&A_cache_words["),
}


def program() -> tuple[CudaSource, dict[str, np.ndarray], np.ndarray]:
    """Products whose second operand is read word by word."""
    dag, rng = int_product(32, 16, 20, SINGLES), np.random.default_rng(0)
    sketch, *_ = on_units(dag, H200)  # that of single warps
    row = feasible_rows(sketch, 1, rng).row(0)
    arrays = int_arrays(dag, rng)
    layouts = preparations(sketch, row)
    given = arrays | {name: layout.apply(arrays[name]) for name, layout in layouts.items()}
    return emit(lower(sketch, dict(row)), H200), given, oracle(dag, arrays)


@needs_nvrtc
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed_in_ptx(fault: str) -> None:
    source, arrays, wanted = program()
    (found,) = run_ptx(source, ptx_of(source.text), arrays).values()
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)
    mutant = replace(source, text=FAULTS[fault](source.text))
    assert mutant.text != source.text
    try:
        (found,) = run_ptx(mutant, ptx_of(mutant.text), arrays).values()
    except RuntimeError:
        return
    assert not np.array_equal(found.reshape(wanted.shape), wanted)


def layers() -> Network:
    """A picture through a convolution with padding, then a product; names that mean something."""
    rng = np.random.default_rng(0)
    builder = GraphBuilder("tf32; int main")
    value = builder.input(Value("float", (1, 5, 9, 9)))
    shapes = {"asm volatile": (24, 5, 3, 3), "__syncthreads()": (24 * 9 * 9, 19)}
    for name, shape in shapes.items():
        array = (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        weight = builder.constant(f"{name}.w", array)
        if len(shape) == 4:
            value = builder.add(Conv(padding=(1,) * 4), (value, weight), name=name)
            value = builder.add(UnaryOp("relu"), (value,))
            value = builder.add(Reshape((1, 24 * 9 * 9)), (value,))
        else:
            value = builder.add(MatMul(), (value, weight), name=name)
    return Network("tf32", builder.finish({"out": value}))


def test_only_those_who_ask_for_it_get_it() -> None:
    plain = [on_units(task.dag, H200) for task in asd.extract_tasks(layers(), H200)]
    assert not any(plain)
    reduced = asd.reduce_precision(layers(), precision="tf32").network
    assert len(reduced.reduced.names) == 2
    tasks = asd.extract_tasks(reduced, H200)
    units = [on_units(variant.dag, H200) for task in tasks for variant in task.variants]
    assert any(units)
    older = cuda_target("sm_75")
    assert not any(on_units(v.dag, older) for task in tasks for v in task.variants)


def test_targets_without_it_refuse() -> None:
    for target in (asd.Target("cpu"), cuda_target("sm_75")):
        with pytest.raises(TargetError, match="no instruction for products of tf32"):
            asd.compile(layers(), target, precision="tf32")


def test_what_it_does_is_said() -> None:
    reduction = asd.reduce_precision(layers(), precision="tf32")
    assert str(reduction).startswith("2 of 2 layers of tf32 are in tf32; outputs differ by ")
    assert 1e-6 < reduction.random["out"] < 1e-3
    assert all(0 < error < 2.0**-10 for error in reduction.layers.values())
    kept = asd.reduce_precision(layers(), bound=0.0, precision="tf32")
    assert kept.kept == tuple(reduction.layers) and kept.random["out"] == 0


@needs_compiler
def test_a_network_in_tf32() -> None:
    exact = layers()
    data = {"float": np.random.default_rng(1).standard_normal((1, 5, 9, 9)).astype(np.float32)}
    with pytest.warns(AutoschedWarning, match="2 of 2 layers of tf32 are in tf32"):
        module = asd.compile(exact, EMULATED, precision="tf32", effort="none")
    found = module.run(data)["out"]
    reduced = asd.reduce_precision(exact, precision="tf32").network
    wanted = evaluate(with_reduced(optimize(reduced.graph), reduced.reduced), data)["out"]
    plain = evaluate(exact.graph, data)["out"]
    size = np.abs(plain).max()
    assert 1e-6 * size < np.abs(wanted - plain).max() < 1e-3 * size
    assert np.abs(found - wanted).max() < 0.1 * np.abs(wanted - plain).max()

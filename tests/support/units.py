"""Programs of whole numbers that tensor units compute, and machines that have units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from codegen.host import cpu_target
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.dtypes import is_float, numpy_dtype
from sketch.lang.expr import cast, select
from sketch.lang.functions import all_of
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.operators.factors import factor
from sketch.oracle.interpret import interpret
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.schedule.steps import Tensorize
from sketch.target.target import Target

BYTES = ("uint8", "int8")
HALVES = ("bfloat16", "bfloat16")
SINGLES = ("tf32", "tf32")
"""In place of types: float32, rounded where they are multiplied."""
_STORED = {"tf32": "float32"}
_TIE = 1 << 11
_NEAR = (1 - 2.0**-13, 1 + 2.0**-13)


def with_feature(name: str, *features: str) -> Target:
    """A named instruction set and some features more, on one thread."""
    target = cpu_target(name, 1)
    return replace(target, features=",".join((target.features, *(f"+{f}" for f in features))))


WIDE = with_feature("cpu-avx512", "avx512vnni", "avx512bf16")
NARROW = with_feature("cpu-avx2", "avxvnni")
TILES = with_feature("cpu-avx512", "amx-tile", "amx-int8", "amx-bf16", "amx-fp16")


def int_product(
    m: int, n: int, k: int, types: tuple[str, str] = BYTES, constant: bool = True
) -> ComputeDAG:
    """``C = A @ B`` in 32 bits, [m, k] x [k, n], B a constant or not."""
    sums = _sums(types)
    lhs = placeholder((m, k), stored(types[0]), name="A")
    rhs = placeholder((k, n), stored(types[1]), name="B", constant=constant)
    r = reduce_axis(k, "r")
    result = compute(
        (m, n),
        lambda i, j: reducers.sum(factor(lhs[i, r], sums) * factor(rhs[r, j], sums), r),
        name="C",
    )
    return ComputeDAG([result])


def int_window(
    size: int, channels: int, outputs: int, taps: int, types: tuple[str, str] = BYTES
) -> ComputeDAG:
    """Sums over a padded window of a map [size, size, channels], in 32 bits."""
    sums = _sums(types)
    data = placeholder((size, size, channels), stored(types[0]), name="A")
    shape = (taps, taps, channels, outputs)
    weight = placeholder(shape, stored(types[1]), name="B", constant=True)
    p, q, c = reduce_axis(taps, "p"), reduce_axis(taps, "q"), reduce_axis(channels, "c")

    def body(h, w, o):
        y, x = h + p - taps // 2, w + q - taps // 2
        term = factor(data[y, x, c], sums) * factor(weight[p, q, c, o], sums)
        if taps > 1:
            term = select(all_of(y >= 0, y < size, x >= 0, x < size), term, 0)
        return reducers.sum(term, (p, q, c))

    return ComputeDAG([compute((size, size, outputs), body, name="C")])


def turned_picture(channels: int) -> ComputeDAG:
    """Every second window of 2 x 4 taps of planes [channels, 5, 12], read channels last."""
    data = placeholder((channels, 5, 12), "uint8", name="A")
    weight = placeholder((2, 4, channels, 16), "int8", name="B", constant=True)
    turned = compute((5, 12, channels), lambda y, x, z: data[z, y, x], name="turned")
    p, q, c = reduce_axis(2, "p"), reduce_axis(4, "q"), reduce_axis(channels, "c")

    def body(h, w, o):
        pixel, factor = turned[h + p, w * 2 + q, c], weight[p, q, c, o]
        return reducers.sum(cast(pixel, "int32") * cast(factor, "int32"), (p, q, c))

    return ComputeDAG([compute((4, 5, 16), body, name="C")])


def stored(kind: str) -> str:
    """The type of elements that are multiplied as such."""
    return _STORED.get(kind, kind)


def _sums(types: tuple[str, str]) -> str:
    if types == SINGLES:
        return types[0]
    return "float32" if is_float(types[0]) else "int32"


def on_units(dag: ComputeDAG, target: Target) -> list[Sketch]:
    """The sketches of a program that use units of the target."""
    return [s for s in generate(dag, target) if any(isinstance(x, Tensorize) for x in s.steps)]


def int_arrays(dag: ComputeDAG, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs over the whole range of their types; of floats those of a byte, so that sums of some
    hundred products are exact in any order.  Matrices of float32 have numbers that tf32 has not:
    the first whole ones, half of them halfway between those of tf32, others such next to small
    whole ones.
    """
    types = {t.name: "int8" if is_float(t.dtype) else t.dtype for t in dag.inputs}
    limits = {name: np.iinfo(dtype) for name, dtype in types.items()}
    arrays = {
        t.name: rng.integers(
            limits[t.name].min, limits[t.name].max, t.shape, types[t.name], endpoint=True
        )
        for t in dag.inputs
    }
    found = {t.name: arrays[t.name].astype(numpy_dtype(t.dtype)) for t in dag.inputs}
    matrices = [t for t in dag.inputs if t.dtype == "float32" and t.ndim > 1]
    for number, tensor in enumerate(matrices):
        signs = rng.choice((-1.0, 1.0), tensor.shape)
        whole = rng.integers(_TIE, 2 * _TIE, tensor.shape)
        if number:
            whole = rng.integers(0, 4, tensor.shape) * rng.choice(_NEAR, tensor.shape)
        found[tensor.name] = (signs * whole).astype(np.float32)
    return found


def oracle(dag: ComputeDAG, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The one result, exact."""
    return interpret(dag, inputs)[dag.output_names[0]]

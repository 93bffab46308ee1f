"""Integer programs that tensor units compute, and machines that have units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from codegen.host import cpu_target
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import cast, select
from sketch.lang.functions import all_of
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.oracle.interpret import interpret
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.schedule.steps import Tensorize
from sketch.target.target import Target

BYTES = ("uint8", "int8")


def with_feature(name: str, feature: str) -> Target:
    """A named instruction set and one feature more, on one thread."""
    target = cpu_target(name, 1)
    return replace(target, features=f"{target.features},+{feature}")


WIDE = with_feature("cpu-avx512", "avx512vnni")
NARROW = with_feature("cpu-avx2", "avxvnni")


def int_product(m: int, n: int, k: int, types: tuple[str, str] = BYTES) -> ComputeDAG:
    """``C = A @ B`` in int32, [m, k] x [k, n], with a constant B."""
    lhs = placeholder((m, k), types[0], name="A")
    rhs = placeholder((k, n), types[1], name="B", constant=True)
    r = reduce_axis(k, "r")
    result = compute(
        (m, n),
        lambda i, j: reducers.sum(cast(lhs[i, r], "int32") * cast(rhs[r, j], "int32"), r),
        name="C",
    )
    return ComputeDAG([result])


def int_window(
    size: int, channels: int, outputs: int, taps: int, types: tuple[str, str] = BYTES
) -> ComputeDAG:
    """Sums over a padded window of a map [size, size, channels], in int32."""
    data = placeholder((size, size, channels), types[0], name="A")
    weight = placeholder((taps, taps, channels, outputs), types[1], name="B", constant=True)
    p, q, c = reduce_axis(taps, "p"), reduce_axis(taps, "q"), reduce_axis(channels, "c")

    def body(h, w, o):
        y, x = h + p - taps // 2, w + q - taps // 2
        term = cast(data[y, x, c], "int32") * cast(weight[p, q, c, o], "int32")
        if taps > 1:
            term = select(all_of(y >= 0, y < size, x >= 0, x < size), term, 0)
        return reducers.sum(term, (p, q, c))

    return ComputeDAG([compute((size, size, outputs), body, name="C")])


def on_units(dag: ComputeDAG, target: Target) -> list[Sketch]:
    """The sketches of a program that use units of the target."""
    return [s for s in generate(dag, target) if any(isinstance(x, Tensorize) for x in s.steps)]


def int_arrays(dag: ComputeDAG, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs over the whole range of their types."""
    limits = {tensor.name: np.iinfo(tensor.dtype) for tensor in dag.inputs}
    return {
        t.name: rng.integers(
            limits[t.name].min, limits[t.name].max, t.shape, dtype=t.dtype, endpoint=True
        )
        for t in dag.inputs
    }


def oracle(dag: ComputeDAG, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The one result, exact."""
    return interpret(dag, inputs)[dag.output_names[0]]

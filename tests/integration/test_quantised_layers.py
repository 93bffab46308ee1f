"""Layers of quantised models: each number is the nearest one to the exact quotient, given what the
layer reads, with scales that are no powers of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import autosched as asd

onnx = pytest.importorskip("onnx")

from tests.support.layer_errors import quanta_off  # noqa: E402
from tests.support.qdq_models import integers, parameters, qdq_model  # noqa: E402

# A half by rounding; the rest is what float32 loses of some hundred quanta.
MOST = 0.5005


def run(model: Any, data: Mapping[str, Any]) -> Mapping[str, Any]:
    return asd.compile(asd.from_onnx(model), effort="none").run(dict(data))


BLOCK = """g (float[1,5,9,7] x) => (float[1,10] y) {
    a = Q(x, i) b = D(a, i) w = D(W, w) bias = D(B, v)
    c = Conv<pads=[1,1,1,1]>(b, w, bias) d = Q(c, m) e = D(d, m)
    f = MaxPool<kernel_shape=[3,3], strides=[1,1], pads=[1,1,1,1]>(e) h = Q(f, m) j = D(h, m)
    u = D(U, u) k = Conv<pads=[1,1,1,1], strides=[2,2], group=5>(j, u) l = Q(k, n) n = D(l, n)
    p = Conv<pads=[1,1,1,1], strides=[2,2]>(e, w, bias) q = Q(p, m) r = D(q, m)
    o = Add(n, r) s = Relu(o) t = Q(s, t) z = D(t, t)
    g1 = GlobalAveragePool(z) g2 = Q(g1, p) g3 = D(g2, p) g4 = Flatten(g3)
    dw = D(D, u) g5 = MatMul(g4, dw) g6 = Q(g5, o) y = D(g6, o)
}"""


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("zero", [0, 7])
def test_blocks(dtype: str, zero: int) -> None:
    """Convolutions, depthwise ones, sums, pools, averages and products in one network."""
    low = -128 if dtype == "int8" else 0
    constants = {
        "W": integers(5, 5, 3, 3, most=50), "U": integers(5, 1, 3, 3, most=90),
        "B": integers(5, dtype="int32", most=4000), "D": integers(5, 10),
        **parameters(i=(0.31, zero, dtype), w=(0.0123, 0, "int8"), u=(0.017, 0, "int8")),
        **parameters(v=(0.31 * 0.0123, 0, "int32"), m=(0.47, zero + 3, dtype)),
        **parameters(n=(0.39, zero, dtype), t=(0.55, low, dtype), p=(0.21, low, dtype)),
        **parameters(o=(0.083, 11, dtype)),
    }  # fmt: skip
    rng = np.random.default_rng(zero)
    data = {"x": (rng.standard_normal((1, 5, 9, 7)) * 25).astype(np.float32)}
    errors = quanta_off(qdq_model(BLOCK, constants), data, run)
    assert len(errors) == 8
    assert max(errors.values()) <= MOST, errors


@pytest.mark.parametrize(("dtype", "zero"), [("uint8", 0), ("int8", 3)])
def test_transposed_convolutions(dtype: str, zero: int) -> None:
    """On bytes, and on 16-bit integers."""
    text = """g (float[1,16,7,5] x) => (float[1,16,14,10] y) {
        a = Q(x, i) b = D(a, i) w = D(W, w) bias = D(B, v)
        c = ConvTranspose<pads=[1,1,1,1], strides=[2,2]>(b, w, bias) d = Q(c, m) y = D(d, m)
    }"""
    constants = {
        "W": integers(16, 16, 4, 4, most=90), "B": integers(16, dtype="int32", most=4000),
        **parameters(i=(0.31, zero, dtype), w=(0.0123, 0, "int8"), v=(0.31 * 0.0123, 0, "int32")),
        **parameters(m=(0.47, zero, dtype)),
    }  # fmt: skip
    data = {"x": (np.random.default_rng(0).standard_normal((1, 16, 7, 5)) * 25).astype(np.float32)}
    errors = quanta_off(qdq_model(text, constants), data, run)
    assert len(errors) == 2 and max(errors.values()) <= MOST, errors

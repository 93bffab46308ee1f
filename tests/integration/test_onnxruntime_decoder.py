"""A layer of a decoder as onnxruntime's genai writes it, step by step against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autosched as asd
from tests.support.lazily import lazily
from tests.support.onnx_sessions import reference_session

onnx = lazily("onnx")

FEATURES, HEADS, SHARED, SIZE, BLOCK = 64, 4, 2, 16, 16
LAYER = """<ir_version: 9, opset_import: ["" : 18, "com.microsoft" : 1]>
layer (float[1, s, 64] x, int64[1, t] mask, float[1, 2, p, 16] keys, float[1, 2, p, 16] values)
    => (float[1, s, 64] y, float[1, 2, q, 16] new_keys, float[1, 2, q, 16] new_values) {
  h = SimplifiedLayerNormalization <axis = -1, epsilon = 0.00001> (x, g1)
  qkv = com.microsoft.MatMulNBits <K = 64, N = 128, bits = 4, block_size = 16> (h, w, ws)
  axes = Constant <value_ints = [1]> ()
  total = ReduceSum <keepdims = 0> (mask, axes)
  one = Constant <value_int = 1> ()
  less = Sub (total, one)
  ends = Cast <to = 6> (less)
  shape = Shape (mask)
  wide = Gather <axis = 0> (shape, one)
  most = Cast <to = 6> (wide)
  a, new_keys, new_values = com.microsoft.GroupQueryAttention
      <num_heads = 4, kv_num_heads = 2, do_rotary = 1> (qkv, , , keys, values, ends, most, c, s)
  o = MatMul (a, wo)
  n, , , sum = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 0.00001> (x, o, g2)
  u = MatMul (n, w1)
  v = MatMul (n, w2)
  e = com.microsoft.QuickGelu <alpha = 1.0> (u)
  m = Mul (e, v)
  d = MatMul (m, w3)
  y = Add (sum, d)
}"""


def layer() -> Any:
    model, rng = onnx.parser.parse_model(LAYER), np.random.default_rng(0)
    angles = np.outer(np.arange(40), 10000.0 ** (-np.arange(8) / 8))
    floats = {
        "g1": 1 + 0.1 * rng.random(FEATURES), "g2": 1 + 0.1 * rng.random(FEATURES),
        "ws": 0.02 + 0.01 * rng.random(128 * FEATURES // BLOCK),
        "wo": rng.standard_normal((FEATURES, FEATURES)) / 8,
        "w1": rng.standard_normal((FEATURES, 96)) / 8,
        "w2": rng.standard_normal((FEATURES, 96)) / 8,
        "w3": rng.standard_normal((96, FEATURES)) / 8,
        "c": np.cos(angles), "s": np.sin(angles),
    }  # fmt: skip
    arrays: dict[str, Any] = {name: array.astype(np.float32) for name, array in floats.items()}
    shape = (128, FEATURES // BLOCK, BLOCK // 2)
    arrays["w"] = rng.integers(0, 256, shape).astype(np.uint8)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()
    )
    return model


def compiled(model: Any, feed: dict[str, Any]) -> Any:
    shapes = {name: array.shape for name, array in feed.items()}
    return asd.compile(asd.from_onnx(model, shapes=shapes), effort="none")


def new_rows(rows: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((1, rows, FEATURES)).astype(np.float32)


def caches(length: int) -> dict[str, Any]:
    rng = np.random.default_rng(9)
    shape = (1, SHARED, length, SIZE)
    return {n: rng.standard_normal(shape).astype(np.float32) for n in ("keys", "values")}


@pytest.mark.parametrize(("rows", "past"), [(1, 8), (5, 7)])
def test_a_cache_that_grows(rows: int, past: int) -> None:
    model = layer()
    mask = np.ones((1, past + rows), np.int64)
    feed = {"x": new_rows(rows, 0), "mask": mask, **caches(past)}
    expected = reference_session(model.SerializeToString()).run(None, feed)
    found = compiled(model, feed).run(feed)
    for values, wanted in zip(found.values(), expected, strict=True):
        np.testing.assert_allclose(values, wanted, rtol=1e-4, atol=1e-5)


def test_a_cache_of_fixed_length_has_one_module_for_all_positions() -> None:
    """The prompt and the tokens after it: each call goes on with the caches of the one before."""
    model, most = layer(), 16
    session = reference_session(model.SerializeToString())
    own: dict[str, Any] = {n: np.zeros_like(a) for n, a in caches(most).items()}
    modules: dict[int, Any] = {}
    kept, past = dict(own), 0
    for rows in (5, 1, 1, 3, 1):
        mask = (np.arange(most) < past + rows).astype(np.int64)[None]
        given = {"x": new_rows(rows, past), "mask": mask}
        if rows not in modules:
            modules[rows] = compiled(model, {**given, **own})
        found = list(modules[rows].run({**given, **own}).values())
        expected = session.run(None, {**given, **kept})
        past += rows
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-5)
        for values, wanted in zip(found[1:], expected[1:], strict=True):
            np.testing.assert_allclose(
                values[:, :, :past], wanted[:, :, :past], rtol=1e-4, atol=1e-5
            )
        own, kept = (dict(zip(own, results[1:], strict=True)) for results in (found, expected))

"""Scatters at computed places: as onnx's reference has them, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from autosched.host.engines import OneNodeEngine, ReferenceEngine, fastest_engine
from autosched.host.evaluator import HostError, HostEvaluator
from autosched.host.scatter_kernel import scattered

DTYPES = ("float32", "float64", "int32", "int64")


def _expected(
    data: np.ndarray, places: np.ndarray, updates: np.ndarray, axis: int, adds: bool
) -> np.ndarray:
    found = data.copy()
    for index in np.ndindex(*places.shape):
        at = list(index)
        at[axis] = places[index]
        if adds:
            found[tuple(at)] += updates[index]
        else:
            found[tuple(at)] = updates[index]
    return found


@given(
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    axis=st.integers(-3, 2),
    count=st.integers(1, 9),
    dtype=st.sampled_from(DTYPES),
    place_dtype=st.sampled_from(["int32", "int64"]),
    adds=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=40)
def test_updates_in_their_order(
    shape: list[int], axis: int, count: int, dtype: str, place_dtype: str, adds: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    axis = max(-len(shape), min(axis, len(shape) - 1))
    extent = shape[axis]
    wanted = list(shape)
    wanted[axis] = count
    data = (rng.standard_normal(shape) * 9).astype(dtype)
    places = rng.integers(-extent, extent, wanted).astype(place_dtype)
    updates = (rng.standard_normal(wanted) * 9).astype(dtype)
    before = data.copy()
    found = scattered(data, places, updates, axis, adds)
    np.testing.assert_array_equal(found, _expected(data, places, updates, axis, adds))
    np.testing.assert_array_equal(data, before)


DATA, PLACES = np.zeros((3, 4), np.float32), np.zeros((2, 4), np.int64)
UPDATES = np.zeros((2, 4), np.float32)


@pytest.mark.parametrize(
    ("data", "places", "updates"),
    [
        (DATA, PLACES + 3, UPDATES),
        (DATA, PLACES - 4, UPDATES),
        (DATA, PLACES[:, :2], UPDATES[:, :2]),
        (DATA, PLACES, UPDATES[:1]),
        (DATA, PLACES[0], UPDATES[0]),
        (DATA, PLACES[:0], UPDATES[:0]),
        (DATA[:0], PLACES[:0], UPDATES[:0]),
        (DATA.astype(np.float16), PLACES, UPDATES.astype(np.float16)),
        (DATA, PLACES, UPDATES.astype(np.float64)),
        (DATA, PLACES.astype(np.uint8), UPDATES),
        (DATA[0, 0], PLACES[0, 0], UPDATES[0, 0]),
    ],
    ids=[
        "behind",
        "before",
        "narrow",
        "short",
        "flat",
        "none",
        "empty",
        "half",
        "wide",
        "bytes",
        "scalar",
    ],
)
def test_what_other_engines_scatter(
    data: np.ndarray, places: np.ndarray, updates: np.ndarray
) -> None:
    assert scattered(data, places, updates, 0, True) is None


def _model(reduction: str, axis: int, shape: tuple[int, int]) -> bytes:
    node = helper.make_node(
        "ScatterElements", ["d", "p", "u"], ["y"], axis=axis, reduction=reduction
    )
    kinds = {"d": TensorProto.FLOAT, "p": TensorProto.INT64, "u": TensorProto.FLOAT}
    inputs = [helper.make_tensor_value_info(name, kind, shape) for name, kind in kinds.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph([node], "g", inputs, [result])
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@pytest.mark.parametrize("shape", [(40, 50), (4, 5)])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max"])
def test_models(
    reduction: str, axis: int, shape: tuple[int, int], rng: np.random.Generator
) -> None:
    payload = _model(reduction, axis, shape)
    engine = fastest_engine(payload)
    assert isinstance(engine, OneNodeEngine)
    feeds = {
        "d": rng.standard_normal(shape).astype(np.float32),
        "p": rng.integers(-shape[axis], shape[axis], shape),
        "u": rng.standard_normal(shape).astype(np.float32),
    }
    (found,) = engine.evaluate(feeds)
    (exact,) = ReferenceEngine(payload).evaluate(feeds)
    np.testing.assert_array_equal(found, exact)


def test_places_out_of_range_are_an_error() -> None:
    shape = (40, 50)
    evaluator = HostEvaluator("ScatterElements", _model("add", 0, shape), fastest_engine)
    zeros = np.zeros(shape, np.float32)
    with pytest.raises(HostError, match="ScatterElements"):
        evaluator.run([zeros, np.full(shape, 40), zeros])

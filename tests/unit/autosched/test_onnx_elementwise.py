"""Importers of element-wise operators and activations, against onnx's reference."""

from typing import Any

import numpy as np
import pytest

from autosched.graph.errors import ModelImportError
from autosched.onnx_import import from_onnx
from tests.onnx_reference import compare, node_model

RNG = np.random.default_rng(0)
X = (RNG.standard_normal((3, 4, 5)) * 3).astype(np.float32)
ROW = RNG.standard_normal(5).astype(np.float32)
INTEGERS = RNG.integers(-9, 9, (3, 4), dtype=np.int64)
FLAGS, MASK = X[0] > 0, X[1, :1] > 1

ACTIVATIONS: list[tuple[int, str, dict[str, Any]]] = [
    (12, "Celu", {}),
    (12, "Celu", {"alpha": 2.0}),
    (6, "Elu", {"alpha": 0.5}),
    (20, "Gelu", {}),
    (20, "Gelu", {"approximate": "tanh"}),
    (6, "HardSigmoid", {}),
    (6, "HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
    (14, "HardSwish", {}),
    (16, "LeakyRelu", {}),
    (18, "Mish", {}),
    (6, "Selu", {}),
    (6, "Selu", {"alpha": 1.5, "gamma": 0.9}),
    (9, "Shrink", {"lambd": 1.5, "bias": 0.25}),
    (1, "Softplus", {}),
    (1, "Softsign", {}),
    (24, "Swish", {"alpha": 1.5}),
    (10, "ThresholdedRelu", {}),
    (13, "Reciprocal", {}),
]


@pytest.mark.parametrize(("since", "operator", "attributes"), ACTIVATIONS)
def test_activations(since: int, operator: str, attributes: dict[str, Any]) -> None:
    model = node_model(operator, attributes, {"x": X}, {}, max(since, 13))
    compare(model, {"x": X}, compiled=operator in ("Mish", "Shrink"))


def test_activations_of_large_numbers() -> None:
    x = np.array([-1e4, -100, 100, 1e4], np.float32)
    for operator, expected in (("Softplus", [0, 0, 100, 1e4]), ("Mish", [0, 0, 100, 1e4])):
        compare(node_model(operator, {}, {"x": x}, {}), {"x": x}, True, [np.array(expected, "f4")])


BINARY: list[tuple[str, list[np.ndarray]]] = [
    ("PRelu", [X, ROW]),
    ("PRelu", [X, RNG.standard_normal((4, 1)).astype(np.float32)]),
    ("Sum", [X, ROW, X[:, :1]]),
    ("Mean", [X, ROW, X[:, :1]]),
    ("Mean", [X]),
    ("Max", [X, ROW, X[:1]]),
    ("Equal", [INTEGERS, INTEGERS[:1]]),
    ("Equal", [FLAGS, MASK]),
    ("Less", [X, ROW]),
    ("LessOrEqual", [INTEGERS, INTEGERS[1:2]]),
    ("Greater", [X, ROW]),
    ("GreaterOrEqual", [X, X]),
    ("And", [FLAGS, MASK]),
    ("Or", [FLAGS, MASK]),
    ("Xor", [FLAGS, MASK]),
    ("Where", [FLAGS, X[:1, 0], X]),
    ("Where", [MASK, INTEGERS[:, :1, None], INTEGERS[:1, :, None]]),
    ("Pow", [np.abs(X), ROW]),
    ("Pow", [np.abs(X), INTEGERS[:1, :1]]),
    ("Min", [np.float32(1), np.float32(2)]),
]


@pytest.mark.parametrize(
    ("operator", "operands"), BINARY, ids=lambda v: v if type(v) is str else ""
)
def test_operators_of_several_operands(operator: str, operands: list[np.ndarray]) -> None:
    inputs = {f"x{index}": np.asarray(array) for index, array in enumerate(operands)}
    compare(node_model(operator, {}, inputs, {}), inputs, compiled=operator in ("Where", "Xor"))


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0, 3.0, -1.0])
def test_powers_of_constant_exponents(exponent: float) -> None:
    x = np.abs(X) + np.float32(0.1)
    network = compare(
        node_model("Pow", {}, {"x": x}, {"e": np.float32(exponent)}), {"x": x}, rtol=1e-4
    )
    kinds = {node.op.kind for node in network.graph.nodes}
    assert ("pow" in kinds) == (exponent == -1)


def test_not() -> None:
    compare(node_model("Not", {}, {"x": FLAGS}, {}), {"x": FLAGS}, compiled=True)


@pytest.mark.parametrize("order", [["x", "a", "b"], ["x", "", "b"], ["x", "a"], ["x"]])
@pytest.mark.parametrize("computed", [False, True])
def test_clip(order: list[str], computed: bool) -> None:
    bounds = {"a": np.array(-1, np.float32), "b": np.array(0.5, np.float32)}
    used = {name: bounds[name] for name in order if name in bounds}
    inputs = {"x": X, **(used if computed else {})}
    constants = {} if computed else used
    compare(node_model("Clip", {}, inputs, constants, order=order), inputs)


def test_clip_of_integers_and_with_one_computed_bound() -> None:
    x = INTEGERS.astype(np.int32)
    constants = {"a": np.array(-3, np.int32), "b": np.array(4, np.int32)}
    compare(node_model("Clip", {}, {"x": x}, constants), {"x": x})
    inputs = {"x": x, "b": constants.pop("b")}
    model = node_model("Clip", {}, inputs, constants, order=["x", "a", "b"])
    compare(model, inputs)


def test_casts() -> None:
    for to, x in ((6, X), (7, X), (9, X), (1, INTEGERS), (1, FLAGS), (7, FLAGS)):
        compare(node_model("Cast", {"to": to}, {"x": x}, {}), {"x": x})
    inputs = {"x": X, "like": INTEGERS}
    compare(node_model("CastLike", {}, inputs, {}), inputs, compiled=True)


def test_dropout_keeps_everything_at_inference() -> None:
    model = node_model("Dropout", {}, {"x": X}, {}, outputs=("y", "mask"))
    compare(model, {"x": X})
    training = {"ratio": np.float32(0.5), "training": np.array(True)}
    with pytest.raises(ModelImportError, match="draws new random numbers"):
        from_onnx(node_model("Dropout", {}, {"x": X}, training))

"""Importers of element-wise operators and activations, against onnx's reference."""

from typing import Any

import numpy as np
import onnx
import pytest

import autosched as asd
from autosched.graph.errors import ModelImportError
from autosched.onnx.importer import from_onnx
from tests.support.onnx_reference import compare, node_model

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


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """The output of the compiled model."""
    return asd.compile(from_onnx(model), target="cpu").run({"x": x})["y"]


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0, 3.0, -1.0])
def test_powers_of_constant_exponents(exponent: float) -> None:
    x = np.abs(X) + np.float32(0.1)
    network = compare(
        node_model("Pow", {}, {"x": x}, {"e": np.float32(exponent)}), {"x": x}, rtol=1e-4
    )
    kinds = {node.op.kind for node in network.graph.nodes}
    assert ("pow" in kinds) == (exponent == -1)


def test_the_power_of_one_half_is_no_plain_root() -> None:
    x = np.array([-np.inf, -0.0, np.inf, -1, 4, np.nan], np.float32)
    model = node_model("Pow", {}, {"x": x}, {"e": np.float32(0.5)})
    with np.errstate(divide="ignore"):
        roots = 1 / run(model, x)  # tells 0 from -0
    np.testing.assert_array_equal(roots, np.array([0, np.inf, 0, np.nan, 0.5, np.nan], np.float32))


UNARY: list[tuple[str, np.ndarray]] = [
    *((name, X) for name in ("Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh", "Sign")),
    *((name, np.tanh(X)) for name in ("Asin", "Acos", "Atanh")),
    ("Acosh", np.abs(X) + np.float32(1)),
    ("Round", np.array([-2.5, -0.5, 0.5, 1.5, 2.4], np.float32)),
    ("Sin", X.astype(np.float64)),
    ("Exp", X.astype(np.float16)),
    ("Sign", INTEGERS),
    ("Not", FLAGS),
    ("BitwiseNot", INTEGERS.astype(np.int16)),
    ("Abs", INTEGERS.astype(np.int8)),
    ("IsNaN", np.array([1, np.nan, -np.inf], np.float32)),
]


@pytest.mark.parametrize(("operator", "x"), UNARY, ids=lambda v: v if type(v) is str else "")
def test_functions(operator: str, x: np.ndarray) -> None:
    half = x.dtype == np.float16
    model = node_model(operator, {}, {"x": x}, {})
    compare(model, {"x": x}, compiled=operator in ("Not", "Round"), rtol=2e-3 if half else 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("signs", [(1, 1), (1, 0), (0, 1), (0, 0)])
def test_infinities(signs: tuple[int, int], dtype: str) -> None:
    x = np.array([1, np.nan, -np.inf, np.inf], dtype)
    attributes = dict(zip(("detect_positive", "detect_negative"), signs, strict=True))
    compare(node_model("IsInf", attributes, {"x": x}, {}), {"x": x})


INTEGER_CASES: list[tuple[str, dict[str, Any], np.ndarray, np.ndarray]] = [
    ("Div", {}, INTEGERS, np.array([[2], [-3], [4]])),
    ("Mod", {}, INTEGERS, np.array([[2], [-3], [4]])),
    ("Mod", {"fmod": 1}, INTEGERS, np.array([[2], [-3], [4]])),
    ("Mod", {"fmod": 1}, X, np.array([1.5, -2, 3, 1, 1], np.float32)),
    ("Pow", {}, INTEGERS, np.array([[3], [2], [0]])),
    ("Pow", {}, np.abs(INTEGERS), np.array([[0.5], [2.5], [1]], np.float32)),
    ("BitwiseAnd", {}, INTEGERS, INTEGERS[:1]),
    ("BitwiseOr", {}, INTEGERS, INTEGERS[:1]),
    ("BitwiseXor", {}, INTEGERS, INTEGERS[:1]),
    ("BitShift", {"direction": "LEFT"}, np.arange(8, dtype=np.uint8), np.array([3], np.uint8)),
    ("BitShift", {"direction": "RIGHT"}, np.arange(8, dtype=np.uint8), np.array([1], np.uint8)),
]


@pytest.mark.parametrize(("operator", "attributes", "lhs", "rhs"), INTEGER_CASES)
def test_arithmetic_of_integers(
    operator: str, attributes: dict[str, Any], lhs: np.ndarray, rhs: np.ndarray
) -> None:
    inputs = {"x": lhs, "y": rhs}
    model = node_model(operator, attributes, inputs, {}, outputs=("z",))
    compare(model, inputs, compiled=operator in ("Div", "Mod"))


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
    halves = X.astype(np.float16)
    for to in (1, 3, 5, 6, 7, 9, 10, 11):
        for x in (X, halves, INTEGERS, INTEGERS.astype(np.int8), FLAGS):
            compare(node_model("Cast", {"to": to}, {"x": x}, {}), {"x": x})
    inputs = {"x": X, "like": INTEGERS}
    compare(node_model("CastLike", {}, inputs, {}), inputs, compiled=True)


def test_dropout_keeps_everything_at_inference() -> None:
    model = node_model("Dropout", {}, {"x": X}, {}, outputs=("y", "mask"))
    compare(model, {"x": X})
    training = {"ratio": np.float32(0), "training": np.array(True)}
    compare(node_model("Dropout", {}, {"x": X}, training), {"x": X})
    training["ratio"] = np.float32(0.5)
    with pytest.raises(ModelImportError, match="draws new random numbers"):
        from_onnx(node_model("Dropout", {}, {"x": X}, training))

"""Element-wise operators of random graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from onnx import TensorProto

from campaign.graphs.graph import Graph, Tensor

_FLOATS: Final = ("float32", "float32", "float32", "float64", "float16")
_WIDE: Final = ("float32",)
_NUMBERS: Final = (*_FLOATS, "int32", "int64")
_INTEGERS: Final = ("int32", "int64")
_KINDS: Final[Mapping[str, int]] = {
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int32": TensorProto.INT32,
    "int64": TensorProto.INT64, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8,
    "bool": TensorProto.BOOL, "float16": TensorProto.FLOAT16,
}  # fmt: skip
_SMOOTH: Final = (
    "Sigmoid", "Tanh", "Exp", "Erf", "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh",
    "Softplus", "Softsign", "HardSwish", "Mish",
)  # fmt: skip
# Their domain has an end, or they jump: the least difference of the argument shows.
_SHARP: Final = ("Log", "Sqrt", "Acos", "Acosh", "Asin", "Atanh", "Reciprocal")
_WHOLE: Final = ("Floor", "Ceil", "Round", "Sign")


def _smooth(operator: str, graph: Graph) -> Tensor:
    return graph.add(operator, [graph.pick(_WIDE)])


def _sharp(operator: str, graph: Graph) -> Tensor:
    return graph.add(operator, [graph.pick(_WIDE, exact=True)])


def _whole(operator: str, graph: Graph) -> Tensor:
    return graph.add(operator, [graph.pick(_FLOATS, exact=True)], exact=True)


def _exact(operator: str, graph: Graph) -> Tensor:
    return graph.add(operator, [graph.pick(_NUMBERS)], exact=True)


def _test(operator: str, graph: Graph) -> Tensor:
    return graph.add(operator, [graph.pick(_WIDE, exact=True)])


def _is_inf(graph: Graph) -> Tensor:
    signs: dict[str, Any] = {
        "detect_positive": graph.rng.randrange(2),
        "detect_negative": graph.rng.randrange(2),
    }
    return graph.add("IsInf", [graph.pick(_WIDE, exact=True)], **signs)


def _with(operator: str, ranges: Mapping[str, tuple[float, float]], graph: Graph) -> Tensor:
    """Some of the attributes, drawn from their ranges."""
    rng = graph.rng
    attributes: dict[str, Any] = {
        n: rng.uniform(*r) for n, r in ranges.items() if rng.random() < 0.7
    }
    return graph.add(
        operator, [graph.pick(_WIDE, exact=operator == "ThresholdedRelu")], **attributes
    )


def _gelu(graph: Graph) -> Tensor:
    return graph.add("Gelu", [graph.pick(_WIDE)], approximate=graph.rng.choice(("none", "tanh")))


def _shrink(graph: Graph) -> Tensor:
    rng = graph.rng
    attributes: dict[str, Any] = {"lambd": rng.uniform(0, 1), "bias": rng.uniform(0, 1)}
    return graph.add("Shrink", [graph.pick(_WIDE, exact=True)], **attributes)


def _dropout(graph: Graph) -> Tensor:
    return graph.add("Dropout", [graph.pick(_WIDE)], graph.rng.choice((1, 2)), exact=True)


def _clip(graph: Graph) -> Tensor:
    data = graph.pick((*_FLOATS, "int32"))
    kind = float if data.dtype.startswith("float") else int
    low = graph.constant(data.dtype, kind(-1)) if graph.rng.random() < 0.8 else None
    high = graph.constant(data.dtype, kind(1)) if graph.rng.random() < 0.8 else None
    return graph.add("Clip", [data, low, high], exact=True)


def _binary(operator: str, graph: Graph) -> Tensor:
    data = graph.pick(_NUMBERS)
    pair = [data, graph.like(data)]
    graph.rng.shuffle(pair)
    return graph.add(operator, pair, exact=operator in ("Max", "Min"))


def _divide(graph: Graph) -> Tensor:
    data = graph.pick(_FLOATS)
    return graph.add("Div", [data, graph.like(data, exact=True)])


def _many(operator: str, graph: Graph) -> Tensor:
    data = graph.pick(_WIDE)
    others = [graph.like(data) for _ in range(graph.rng.randrange(3))]
    return graph.add(operator, [data, *others])


def _power(graph: Graph) -> Tensor:
    base = graph.pick(("float32", "float64", "int32"), exact=True)
    if base.dtype == "int32":
        return graph.add("Pow", [base, graph.constant("int32", graph.rng.randrange(4))])
    exponent = graph.rng.choice((0.0, 0.5, 1.0, 2.0, 3.0, -1.0, 1.5, -0.5))
    return graph.add("Pow", [base, graph.constant(base.dtype, exponent)])


def _prelu(graph: Graph) -> Tensor:
    data = graph.pick(_WIDE)
    slope = graph.weights([e if graph.rng.random() < 0.7 else 1 for e in data.shape])
    return graph.add("PRelu", [data, slope])


def _mod(graph: Graph) -> Tensor:
    data = graph.pick(("float32", *_INTEGERS), exact=True)
    if data.dtype == "float32":
        return graph.add("Mod", [data, graph.constant("float32", 0.75)], fmod=1)
    divisor = graph.constant(data.dtype, graph.rng.choice((1, 2, 3, -2, -5)))
    return graph.add("Mod", [data, divisor], fmod=graph.rng.randrange(2))


def _compare(operator: str, graph: Graph) -> Tensor:
    data = graph.pick(("float32", *_INTEGERS), exact=True)
    return graph.add(operator, [data, graph.like(data, exact=True)])


def _logic(operator: str, graph: Graph) -> Tensor:
    data = graph.pick(("bool",))
    return graph.add(operator, [data, graph.like(data)])


def _not(graph: Graph) -> Tensor:
    return graph.add("Not", [graph.pick(("bool",))])


def _bits(operator: str, graph: Graph) -> Tensor:
    data = graph.pick(("int32", "int64", "uint8", "int8"))
    return graph.add(operator, [data, graph.like(data)])


def _shift(graph: Graph) -> Tensor:
    data = graph.pick(("uint8",))
    amount = graph.constant("uint8", graph.rng.randrange(8))
    return graph.add("BitShift", [data, amount], direction=graph.rng.choice(("LEFT", "RIGHT")))


def _where(graph: Graph) -> Tensor:
    data = graph.pick((*_NUMBERS, "uint8"))
    condition = graph.new_input("bool", [e if graph.rng.random() < 0.8 else 1 for e in data.shape])
    return graph.add("Where", [condition, data, graph.like(data)], exact=True)


def _cast(graph: Graph) -> Tensor:
    data = graph.pick((*_FLOATS, "int32", "int64", "bool", "uint8", "int8"), exact=True)
    to = graph.rng.choice(("float32", "float64", "int32", "int64", "bool", "float16"))
    return graph.add("Cast", [data], to=_KINDS[to], exact=True)


def _cast_like(graph: Graph) -> Tensor:
    data = graph.pick((*_FLOATS, "int32", "bool"), exact=True)
    return graph.add("CastLike", [data, graph.constant("float32", [0.0])], exact=True)


_Adder = Callable[[Graph], Any]
ARITHMETIC: Final[Mapping[str, _Adder]] = {
    **{name: partial(_smooth, name) for name in _SMOOTH},
    **{name: partial(_sharp, name) for name in _SHARP},
    **{name: partial(_whole, name) for name in _WHOLE},
    **{name: partial(_exact, name) for name in ("Relu", "Neg", "Abs", "Identity")},
    "IsNaN": partial(_test, "IsNaN"),
    "IsInf": _is_inf,
    "Elu": partial(_with, "Elu", {"alpha": (0.1, 2)}),
    "Selu": partial(_with, "Selu", {"alpha": (0.5, 2), "gamma": (0.5, 2)}),
    "Celu": partial(_with, "Celu", {"alpha": (0.5, 2)}),
    "LeakyRelu": partial(_with, "LeakyRelu", {"alpha": (-0.5, 0.5)}),
    "ThresholdedRelu": partial(_with, "ThresholdedRelu", {"alpha": (0, 1.5)}),
    "HardSigmoid": partial(_with, "HardSigmoid", {"alpha": (0.1, 1), "beta": (0, 1)}),
    "Gelu": _gelu,
    "Shrink": _shrink,
    "Dropout": _dropout,
    "Clip": _clip,
    **{name: partial(_binary, name) for name in ("Add", "Sub", "Mul", "Max", "Min")},
    "Div": _divide,
    "Sum": partial(_many, "Sum"),
    "Mean": partial(_many, "Mean"),
    "Pow": _power,
    "PRelu": _prelu,
    "Mod": _mod,
    **{
        name: partial(_compare, name)
        for name in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
    },
    **{name: partial(_logic, name) for name in ("And", "Or", "Xor")},
    "Not": _not,
    **{name: partial(_bits, name) for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")},
    "BitwiseNot": lambda graph: graph.add("BitwiseNot", [graph.pick(("int32", "uint8", "int8"))]),
    "BitShift": _shift,
    "Where": _where,
    "Cast": _cast,
    "CastLike": _cast_like,
}

"""RNN, GRU and LSTM as the ONNX standard defines them, in float64, one sequence after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

Array = NDArray[Any]
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "Relu": lambda x: np.maximum(x, 0),
    "Tanh": np.tanh,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Affine": lambda x, a=1.0, b=0.0: a * x + b,
    "LeakyRelu": lambda x, a=0.01: np.where(x < 0, a * x, x),
    "ThresholdedRelu": lambda x, a=1.0: np.where(x > a, x, 0),
    "ScaledTanh": lambda x, a=1.0, b=1.0: a * np.tanh(b * x),
    "HardSigmoid": lambda x, a=0.2, b=0.5: np.clip(a * x + b, 0, 1),
    "Elu": lambda x, a=1.0: np.where(x < 0, a * (np.exp(x) - 1), x),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Softplus": lambda x: np.log1p(np.exp(x)),
}
PARAMETERS = {"Affine": 2, "LeakyRelu": 1, "ThresholdedRelu": 1, "ScaledTanh": 2}
PARAMETERS |= {"HardSigmoid": 2, "Elu": 1}


@dataclass(frozen=True)
class Case:
    """A recurrent node and its inputs."""

    operator: str
    inputs: Mapping[str, Array]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def directions(self) -> int:
        return int(self.inputs["W"].shape[0])

    @property
    def hidden(self) -> int:
        return int(self.inputs["R"].shape[2])


def make_case(
    operator: str,
    rng: np.random.Generator,
    sizes: tuple[int, int, int, int] = (4, 2, 3, 5),
    optional: Sequence[str] = (),
    **attributes: Any,
) -> Case:
    """Random inputs; ``sizes``: length, batch, features, hidden; ``optional``: inputs to give."""
    length, batch, features, hidden = sizes
    count = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[operator] * hidden
    shapes = {
        "X": (length, batch, features),
        "W": (count, rows, features),
        "R": (count, rows, hidden),
        "B": (count, 2 * rows),
        "initial_h": (count, batch, hidden),
        "initial_c": (count, batch, hidden),
        "P": (count, 3 * hidden),
    }
    given = [name for name in INPUTS if name in ("X", "W", "R", *optional)]
    inputs: dict[str, Array] = {}
    for name in given:
        if name == "sequence_lens":
            inputs[name] = rng.integers(1, length + 1, batch).astype(np.int32)
            continue
        values = (0.3 * rng.standard_normal(shapes[name])).astype(np.float32)  # nothing overflows
        swapped = attributes.get("layout") and name in ("X", "initial_h", "initial_c")
        inputs[name] = values.swapaxes(0, 1).copy() if swapped else values
    return Case(operator, inputs, {"hidden_size": hidden} | attributes)


def make_model(case: Case, variable: Sequence[str] = ("X",), outputs: int = 3) -> onnx.ModelProto:
    """A model of one node; inputs in ``variable`` are its inputs, the others are constants."""
    names = [name if name in case.inputs else "" for name in INPUTS]
    while not names[-1]:
        names.pop()
    results = ["Y", "Y_h", "Y_c"][: 3 if case.operator == "LSTM" else 2][:outputs]
    node = helper.make_node(case.operator, names, results, name="layer", **case.attributes)
    constants = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in case.inputs.items()
        if name not in variable
    ]
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(case.inputs[name].dtype), case.inputs[name].shape
        )
        for name in case.inputs
        if name in variable
    ]
    empty = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
    graph = helper.make_graph([node], "recurrent", infos, empty, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def reference(case: Case) -> dict[str, Array]:
    """All outputs by name."""
    batch_first = bool(case.attributes.get("layout", 0))
    x = case.inputs["X"].astype(np.float64)
    x = x.swapaxes(0, 1) if batch_first else x
    length, batch, _ = x.shape
    y = np.zeros((length, case.directions, batch, case.hidden))
    last = np.zeros((2, case.directions, batch, case.hidden))
    ends = case.inputs.get("sequence_lens", np.full(batch, length))
    direction = case.attributes.get("direction", "forward")
    for d in range(case.directions):
        for b in range(batch):
            steps = range(ends[b])
            backwards = direction == "reverse" or d == 1
            rows = _sequence(case, d, b, x[:, b], reversed(steps) if backwards else steps)
            for t, h, c in rows:
                y[t, d, b] = h
                last[:, d, b] = h, c
    outputs = {"Y": y, "Y_h": last[0]}
    if case.operator == "LSTM":
        outputs["Y_c"] = last[1]
    if batch_first:
        outputs = {"Y": y.transpose(2, 0, 1, 3)} | {
            name: outputs[name].swapaxes(0, 1) for name in outputs if name != "Y"
        }
    return outputs


def _sequence(case: Case, d: int, b: int, x: Array, steps: Any) -> Any:
    """(t, h, c) after each of ``steps`` of sequence ``b`` in direction ``d``."""
    hidden, gates = case.hidden, GATES[case.operator]
    weights = {n: case.inputs[n][d].astype(np.float64) for n in ("W", "R", "B", "P")
               if n in case.inputs}  # fmt: skip
    w, r = weights["W"], weights["R"]
    both = weights.get("B", np.zeros(2 * gates * hidden))
    wb, rb = np.split(both, 2)
    h, c = (_state(case, name, d, b) for name in ("initial_h", "initial_c"))
    functions = _functions(case, d)
    step = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}[case.operator]
    for t in steps:
        h, c = step(case, w @ x[t] + wb, r, rb, h, c, functions, weights.get("P"))
        yield t, h, c


def _state(case: Case, name: str, d: int, b: int) -> Array:
    if name not in case.inputs:
        return np.zeros(case.hidden)
    value = case.inputs[name].astype(np.float64)
    return value[b, d] if case.attributes.get("layout") else value[d, b]


def _functions(case: Case, d: int) -> list[Callable[[Array], Array]]:
    """Functions of direction ``d``; those of gates behind the clip, LSTM's of its state not.

    The standard does not say so, but onnxruntime has it that way.
    """
    count = len(DEFAULTS[case.operator])
    names = case.attributes.get("activations", DEFAULTS[case.operator] * case.directions)
    alphas = list(case.attributes.get("activation_alpha", []))
    betas = list(case.attributes.get("activation_beta", []))
    limit = case.attributes.get("clip", np.inf)
    found: list[Callable[[Array], Array]] = []
    for number, name in enumerate(names):
        pairs = (("a", alphas), ("b", betas))[: PARAMETERS.get(name, 0)]
        parameters = {label: source.pop(0) for label, source in pairs if source}
        bound = np.inf if number % count == 2 else limit
        found.append(_bounded(FUNCTIONS[name], parameters, bound))
    return found[d * count : (d + 1) * count]


def _bounded(
    function: Callable[..., Array], parameters: Mapping[str, float], bound: float
) -> Callable[[Array], Array]:
    return lambda x: function(np.clip(x, -bound, bound), **parameters)


def _rnn(case: Case, x: Array, r: Array, rb: Array, h: Array, c: Array, f: Any, _: Any) -> Any:
    return f[0](x + r @ h + rb), c


def _gru(case: Case, x: Array, r: Array, rb: Array, h: Array, c: Array, f: Any, _: Any) -> Any:
    (xz, xr, xn), (rz, rr, rn) = np.split(x, 3), np.split(r, 3)
    bz, br, bn = np.split(rb, 3)
    z, reset = f[0](xz + rz @ h + bz), f[0](xr + rr @ h + br)
    if case.attributes.get("linear_before_reset"):
        n = f[1](xn + reset * (rn @ h + bn))
    else:
        n = f[1](xn + rn @ (reset * h) + bn)
    return (1 - z) * n + z * h, c


def _lstm(case: Case, x: Array, r: Array, rb: Array, h: Array, c: Array, f: Any, p: Any) -> Any:
    i, o, forget, g = np.split(x + r @ h + rb, 4)
    pi, po, pf = (0, 0, 0) if p is None else np.split(p, 3)
    i = f[0](i + pi * c)
    forget = 1 - i if case.attributes.get("input_forget") else f[0](forget + pf * c)
    following = forget * c + i * f[1](g)
    return f[0](o + po * following) * f[2](following), following

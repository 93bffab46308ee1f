"""Activation functions with parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from autosched.graph.ops.base import Pattern
from autosched.graph.ops.elementwise import Elementwise
from sketch.lang.expr import Expr
from sketch.operators import activations

ActivationFunction = Literal[
    "elu", "selu", "celu", "gelu", "gelu_tanh", "hard_sigmoid", "hard_swish", "mish", "softplus",
    "softsign", "swish", "thresholded_relu", "shrink",
]  # fmt: skip
_FUNCTIONS: Final[Mapping[str, Callable[..., Expr]]] = {
    "elu": activations.elu,
    "selu": activations.selu,
    "celu": activations.celu,
    "gelu": activations.gelu,
    "gelu_tanh": activations.gelu_tanh,
    "hard_sigmoid": activations.hard_sigmoid,
    "hard_swish": activations.hard_swish,
    "mish": activations.mish,
    "softplus": activations.softplus,
    "softsign": activations.softsign,
    "swish": activations.swish,
    "thresholded_relu": activations.thresholded_relu,
    "shrink": activations.shrink,
}


@dataclass(frozen=True, slots=True)
class Activation(Elementwise):
    """``function(data, *parameters)``, element by element; see ``sketch.operators.activations``."""

    pattern: ClassVar[Pattern] = Pattern.ELEMENTWISE

    function: ActivationFunction
    parameters: tuple[float, ...] = ()

    @property
    def kind(self) -> str:
        return self.function

    def scalar(self, *operands: Expr) -> Any:
        return _FUNCTIONS[self.function](*operands, *self.parameters)

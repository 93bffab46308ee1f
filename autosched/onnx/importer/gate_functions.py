"""Activation functions of recurrent layers, which are named in attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from autosched.graph.errors import ModelImportError
from autosched.graph.ops.activation import Activation
from autosched.graph.ops.base import Op
from autosched.graph.ops.elementwise import BinaryOp, Clip, LeakyRelu, UnaryOp, Where
from autosched.onnx.importer.site import Site


@dataclass(frozen=True, slots=True)
class Cell:
    """The body of a recurrent layer while it is built.

    Attributes:
        site: the node, with the builder of the body.
        clip: bound on what goes into the gates' functions.
        mask: bool ``[batch, 1]``: which sequences go on; None: all.
    """

    site: Site
    clip: float | None = None
    mask: str | None = None

    def add(self, op: Op, *inputs: str) -> str:
        """Append a node; returns its output."""
        return self.site.step(op, inputs)

    def sum(self, lhs: str, rhs: str) -> str:
        """``lhs + rhs``."""
        return self.add(BinaryOp("add"), lhs, rhs)

    def product(self, lhs: str, rhs: str) -> str:
        """``lhs * rhs``, element by element."""
        return self.add(BinaryOp("mul"), lhs, rhs)

    def scalar(self, value: float, like: str) -> str:
        """A constant of the dtype of ``like``."""
        array = np.full((1, 1), value).astype(self.site.builder.types[like].dtype)
        return self.site.add_constant("scalar", array)

    def kept(self, new: str, old: str) -> str:
        """``new`` where a sequence goes on, else ``old``."""
        return new if self.mask is None else self.add(Where(), self.mask, new, old)

    def gate(self, function: GateFunction, data: str) -> str:
        """``function`` of the bounded ``data``."""
        if self.clip is not None:
            data = self.add(Clip(-self.clip, self.clip), data)
        return function(self, data)


GateFunction = Callable[[Cell, str], str]


def _affine(alpha: float, beta: float) -> GateFunction:
    return lambda cell, x: cell.sum(cell.product(x, cell.scalar(alpha, x)), cell.scalar(beta, x))


def _scaled_tanh(alpha: float, beta: float) -> GateFunction:
    def apply(cell: Cell, x: str) -> str:
        inner = cell.add(UnaryOp("tanh"), cell.product(x, cell.scalar(beta, x)))
        return cell.product(inner, cell.scalar(alpha, x))

    return apply


def _single(make: Callable[..., Op]) -> Callable[..., GateFunction]:
    """A function that is one operator."""

    def parametrised(*parameters: float) -> GateFunction:
        return lambda cell, x: cell.add(make(*parameters), x)

    return parametrised


# Each with the defaults of alpha and beta, where it has them.
_FUNCTIONS: Final[Mapping[str, tuple[Callable[..., GateFunction], tuple[float, ...]]]] = {
    "affine": (_affine, (1.0, 0.0)),
    "elu": (_single(lambda alpha: Activation("elu", (alpha,))), (1.0,)),
    "hardsigmoid": (_single(lambda a, b: Activation("hard_sigmoid", (a, b))), (0.2, 0.5)),
    "leakyrelu": (_single(LeakyRelu), (0.01,)),
    "relu": (_single(lambda: UnaryOp("relu")), ()),
    "scaledtanh": (_scaled_tanh, (1.0, 1.0)),
    "sigmoid": (_single(lambda: UnaryOp("sigmoid")), ()),
    "softplus": (_single(lambda: Activation("softplus")), ()),
    "softsign": (_single(lambda: Activation("softsign")), ()),
    "tanh": (_single(lambda: UnaryOp("tanh")), ()),
    "thresholdedrelu": (
        _single(lambda alpha: Activation("thresholded_relu", (alpha,))),
        (1.0,),
    ),
}


def gate_functions(
    site: Site, defaults: Sequence[str], directions: int
) -> list[list[GateFunction]]:
    """The functions of each direction of the node; its attribute may name more than are needed.

    Values in ``activation_alpha`` and ``activation_beta`` belong, in order, to the functions that
    have such a parameter.

    Raises:
        ModelImportError: a function that the standard does not know, or too few of them.
    """
    given = site.attributes.get("activations")
    names = [n.decode() if isinstance(n, bytes) else str(n) for n in given or ()]
    names = names or [*defaults] * directions
    needed = len(defaults) * directions  # RNN has two by default, whatever its direction
    unknown = [name for name in names if name.lower() not in _FUNCTIONS]
    if len(names) < needed or unknown:
        problem = f"no activation {unknown[0]!r}" if unknown else f"{len(names)} activations"
        raise ModelImportError(
            f"{problem}, {needed} of them are needed",
            f"node {site.label} ({site.node.op_type})",
            f"the standard has {', '.join(sorted(_FUNCTIONS))}",
        )
    parameters = [iter(site.attributes.get(f"activation_{name}", ())) for name in ("alpha", "beta")]
    functions = [_function(name.lower(), parameters) for name in names[:needed]]
    return [functions[n : n + len(defaults)] for n in range(0, needed, len(defaults))]


def _function(name: str, parameters: Sequence[Iterator[float]]) -> GateFunction:
    make, defaults = _FUNCTIONS[name]
    pairs = zip(parameters, defaults, strict=False)
    return make(*(float(next(source, default)) for source, default in pairs))

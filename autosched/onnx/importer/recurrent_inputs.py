"""What the loop of a recurrent layer takes: shares of its gates, states and weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.movement import Slice
from autosched.onnx.importer.recurrent_cells import KINDS, Kind
from autosched.onnx.importer.site import Site
from autosched.onnx.importer.weights import Weights

W, R, B, LENGTHS, H, _, _P = range(1, 8)
"""Positions of the inputs after X; c follows h."""
_RESET: Final = 2  # gates of GRU before the one whose share of the state is reset


Operand = Sequence[str]
"""Names of what a matrix is made of."""


@dataclass(frozen=True, slots=True)
class Factors:
    """What data and states are multiplied by.

    Attributes:
        multiply: a value times a matrix; the builder of the site may be that of a body.
        data: ``[columns, gates * hidden]``, for each direction.
        states: for each direction, what h is multiplied by.
    """

    multiply: Callable[[Site, str, Operand], str]
    data: Sequence[Operand]
    states: Sequence[Sequence[Operand]]


@dataclass(frozen=True, slots=True)
class Layer:
    """A recurrent node.

    Attributes:
        site: the node.
        kind: what it is.
        length, batch, hidden: extents.
        flag: ``linear_before_reset`` or ``input_forget``.
        batch_first: whether layout is 1.
        mask: bool ``[length, batch, 1]``: which sequences have not ended; None: none ever does.
    """

    site: Site
    kind: Kind
    length: int
    batch: int
    hidden: int
    flag: bool
    batch_first: bool
    mask: str | None

    @property
    def rows(self) -> int:
        """Rows of the weights of one direction."""
        return self.kind.gates * self.hidden

    @property
    def resets(self) -> bool:
        """Whether it has a reset gate."""
        return self.kind is KINDS["GRU"]


@dataclass(frozen=True, slots=True)
class LoopInputs:
    """Names of what one loop takes; where it computes both directions, they have a dimension more,
    which is the first one behind those that the loop goes along.

    Attributes:
        shares: ``[length, batch, gates * hidden]``, the input's share of each gate.
        states: ``[batch, hidden]``, at first.
        matrices: what h is multiplied by.
        reset_bias: ``[hidden]``, what GRU adds to the product that it resets; None for others.
        peepholes: ``[hidden]``, LSTM's weights of c; or none.
        mask: bool ``[length, batch, 1]``: which sequences have not ended; None: none ever does.
    """

    shares: str
    states: tuple[str, ...]
    matrices: Sequence[Operand]
    reset_bias: str | None
    peepholes: tuple[str, ...]
    mask: str | None


def loop_inputs(layer: Layer, factors: Factors, number: int, data: str) -> LoopInputs:
    """Those of one direction.

    Args:
        layer: the node.
        factors: what to multiply by.
        number: of the direction.
        data: ``[length, batch, columns]``, in the order of that direction.
    """
    site, weights = layer.site, Weights(layer.site)
    shares, reset_bias = factors.multiply(site, data, factors.data[number]), None
    if site.has(B):
        bias, reset_bias = _biases(layer, weights, number)
        shares = site.step(BinaryOp("add"), [shares, bias])
    return LoopInputs(
        shares,
        tuple(_initial(layer, weights, state, number) for state in range(layer.kind.states)),
        factors.states[number],
        reset_bias,
        tuple(_peepholes(layer, weights, number)),
        layer.mask,
    )


def side_by_side(layer: Layer, both: Sequence[LoopInputs]) -> LoopInputs:
    """Both directions in one loop; the mask of the second one becomes that of its order."""
    weights = Weights(layer.site)

    def rows(values: Sequence[str]) -> str:
        """``[2, 1, hidden]`` of two vectors."""
        return weights.stacked([weights.stacked([value]) for value in values])

    here, there = both
    mask = None
    if here.mask is not None and there.mask is not None:
        mask = weights.stacked([here.mask, reversed_in_time(layer.site, there.mask)], axis=1)
    biases = [each.reset_bias for each in both if each.reset_bias is not None]
    return LoopInputs(
        weights.stacked([each.shares for each in both], axis=1),
        tuple(weights.stacked(pair) for pair in zip(here.states, there.states, strict=True)),
        [
            [weights.stacked(pair) for pair in zip(*matrices, strict=True)]
            for matrices in zip(here.matrices, there.matrices, strict=True)
        ],
        rows(biases) if biases else None,
        tuple(rows(pair) for pair in zip(here.peepholes, there.peepholes, strict=True)),
        mask,
    )


def reversed_in_time(site: Site, value: str) -> str:
    """With the last step first."""
    shape = site.builder.types[value].shape
    first = (shape[0] - 1, *(0,) * (len(shape) - 1))
    return site.step(Slice(first, (-1, *shape[1:]), (-1, *(1,) * (len(shape) - 1))), [value])


def own_weights(layer: Layer, directions: int) -> Factors:
    """The node's own."""
    weights = Weights(layer.site)
    rows, split = layer.rows, _RESET * layer.hidden
    apart = layer.resets and not layer.flag
    ends = (0, split, rows) if apart else (0, rows)
    data, states = [], []
    for number in range(directions):
        data.append((weights.transposed(weights.pick(W, number)),))
        whole = weights.pick(R, number)
        parts = (weights.rows(whole, *pair) for pair in pairwise(ends))
        states.append([(weights.transposed(part),) for part in parts])
    return Factors(_multiplied, data, states)


def _multiplied(site: Site, value: str, matrix: Operand) -> str:
    return site.step(MatMul(), [value, *matrix])


def _biases(layer: Layer, weights: Weights, number: int) -> tuple[str, str | None]:
    """What is added outside of the loop, and what GRU adds to what it resets."""
    both, rows = weights.pick(B, number), layer.rows
    data, state = weights.rows(both, 0, rows), weights.rows(both, rows, 2 * rows)
    if not (layer.resets and layer.flag):
        return weights.sum(data, state), None
    split = _RESET * layer.hidden
    first = weights.sum(weights.rows(data, 0, split), weights.rows(state, 0, split))
    return weights.joined(first, weights.rows(data, split, rows)), weights.rows(state, split, rows)


def _peepholes(layer: Layer, weights: Weights, number: int) -> list[str]:
    if not layer.site.has(_P):
        return []
    whole, hidden = weights.pick(_P, number), layer.hidden
    return [weights.rows(whole, n * hidden, (n + 1) * hidden) for n in range(3)]


def _initial(layer: Layer, weights: Weights, state: int, number: int) -> str:
    """``[batch, hidden]``, zeros where nothing is given."""
    if layer.site.has(H + state):
        return weights.pick(H + state, number, axis=1 if layer.batch_first else 0)
    zeros = np.zeros((layer.batch, layer.hidden), np.float32).astype(layer.site.type(0).dtype)
    return layer.site.add_constant("initial", zeros)

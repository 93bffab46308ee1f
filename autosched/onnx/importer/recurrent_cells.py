"""One time step of RNN, GRU and LSTM: what the body of their loops computes.

The product of the input with its weights, with the biases, comes ready from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.movement import Slice
from autosched.onnx.importer.gate_functions import Cell, GateFunction


@dataclass(frozen=True, slots=True)
class Values:
    """Names of the body's values.

    Attributes:
        data: ``[batch, gates * hidden]``, the input's share of each gate, one after the other.
        states: ``[batch, hidden]``: h, and c for LSTM.
        recurrence: multiplies h by its weights, ``[hidden, gates * hidden]``; GRU that resets
            before the product has those of its last gate apart.
        bias: ``[hidden]``, what GRU adds to the product that it resets; None for others.
        peepholes: ``[hidden]``, LSTM's weights of c in the gates i, o and f; or none.
    """

    data: str
    states: tuple[str, ...]
    recurrence: tuple[Callable[[str], str], ...]
    bias: str | None = None
    peepholes: tuple[str, ...] = ()


Step = Callable[[Cell, Values, Sequence[GateFunction], bool], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of recurrent layer.

    Attributes:
        gates: number of gates.
        states: number of states.
        functions: the default activation functions of one direction.
        step: the next states; the flag is ``input_forget`` or ``linear_before_reset``.
    """

    gates: int
    states: int
    functions: tuple[str, ...]
    step: Step


def _rnn(cell: Cell, values: Values, functions: Sequence[GateFunction], _: bool) -> tuple[str, ...]:
    (h,) = values.states
    product = values.recurrence[0](h)
    return (cell.kept(cell.gate(functions[0], cell.sum(product, values.data)), h),)


def _gru(
    cell: Cell, values: Values, functions: Sequence[GateFunction], reset_after: bool
) -> tuple[str, ...]:
    """Gates z, r and n: the next state is ``(1 - z) * n + z * h``."""
    (h,) = values.states
    update, candidate = functions
    product = values.recurrence[0](h)
    z, r = (
        cell.gate(update, cell.sum(_gate(cell, product, n, h), _gate(cell, values.data, n, h)))
        for n in (0, 1)
    )
    if reset_after:
        reset = _gate(cell, product, 2, h)
        if values.bias is not None:
            reset = cell.sum(reset, values.bias)
        reset = cell.product(r, reset)
    else:
        reset = values.recurrence[1](cell.product(r, h))
    n = cell.gate(candidate, cell.sum(reset, _gate(cell, values.data, 2, h)))
    difference = cell.add(BinaryOp("sub"), h, n)
    return (cell.kept(cell.sum(n, cell.product(z, difference)), h),)


def _lstm(
    cell: Cell, values: Values, functions: Sequence[GateFunction], coupled: bool
) -> tuple[str, ...]:
    """Gates i, o, f and g: ``c = f * c + i * g`` and ``h = o * function(c)``."""
    h, c = values.states
    gate, candidate, output = functions
    sums = cell.sum(values.recurrence[0](h), values.data)

    def peeping(number: int, state: str) -> str:
        share = _gate(cell, sums, number, h)
        if values.peepholes:
            share = cell.sum(share, cell.product(state, values.peepholes[number]))
        return cell.gate(gate, share)

    i = peeping(0, c)
    f = cell.add(BinaryOp("sub"), cell.scalar(1.0, i), i) if coupled else peeping(2, c)
    g = cell.gate(candidate, _gate(cell, sums, 3, h))
    following = cell.kept(cell.sum(cell.product(f, c), cell.product(i, g)), c)
    o = peeping(1, following)
    return cell.kept(cell.product(o, output(cell, following)), h), following


def _gate(cell: Cell, value: str, number: int, like: str) -> str:
    """Columns of gate ``number`` of ``value [batch, gates * hidden]``."""
    batch, hidden = cell.site.builder.types[like].shape
    start, stop = (0, number * hidden), (batch, (number + 1) * hidden)
    return cell.add(Slice(start, stop, (1, 1)), value)


KINDS: Final[Mapping[str, Kind]] = {
    "RNN": Kind(1, 1, ("Tanh",), _rnn),
    "GRU": Kind(3, 1, ("Sigmoid", "Tanh"), _gru),
    "LSTM": Kind(4, 2, ("Sigmoid", "Tanh", "Tanh"), _lstm),
}

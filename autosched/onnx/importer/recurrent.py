"""Importers of RNN, GRU and LSTM: one product for all time steps, then a loop over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import ModelImportError
from autosched.graph.ir import Result, Value
from autosched.graph.ops.elementwise import BinaryOp, Where
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.ops.scan import Scan, ScanFunction
from autosched.graph.ops.shape import Concat, Reshape, Transpose
from autosched.onnx.importer.gate_functions import Cell, GateFunction, gate_functions
from autosched.onnx.importer.recurrent_cells import KINDS, Kind, Values
from autosched.onnx.importer.site import Site, UnsupportedError
from autosched.onnx.importer.weights import Weights
from sketch.lang.dtypes import is_float

_W, _R, _B, _LENGTHS, _H, _, _P = range(1, 8)  # positions of the inputs after X; c follows h
_DIRECTIONS: Final = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_RANK: Final = 3  # of data
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
        joint: whether a row of a product depends on the other rows, as scales of bytes do: data
            behind the ends of all sequences then count as 0.
    """

    multiply: Callable[[Site, str, Operand], str]
    data: Sequence[Operand]
    states: Sequence[Sequence[Operand]]
    joint: bool = False


@dataclass(frozen=True, slots=True)
class _Layer:
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


def import_recurrent(site: Site, given: Factors | None = None) -> None:
    """RNN, GRU or LSTM, of any direction; ``given``: in place of its own weights."""
    direction = site.attributes.get("direction", "forward")
    if direction not in _DIRECTIONS:
        raise UnsupportedError(f"direction {direction!r}")
    if not is_float(site.type(0).dtype):
        raise UnsupportedError(f"data of dtype {site.type(0).dtype}")
    backwards = _DIRECTIONS[direction]
    _check_shapes(site, len(backwards))
    layer = _layer(site)
    functions = gate_functions(site, layer.kind.functions, len(backwards))
    data = site.input(0)
    if layer.batch_first:
        data = site.step(Transpose((1, 0, 2)), [data])
    factors = given or _weights(layer, len(backwards))
    if factors.joint:
        data = _until_all_end(layer, data)
    found = [
        _direction(layer, factors, number, backwards[number], functions[number], data)
        for number in range(len(backwards))
    ]
    _emit_sequence(layer, [outputs[-1] for outputs in found])
    for state in range(layer.kind.states):
        _emit_state(layer, state, [outputs[state] for outputs in found])


def _check_shapes(site: Site, directions: int) -> None:
    """Raise ModelImportError unless the weights fit each other and the data."""
    data, weight, recurrence = (site.type(index).shape for index in (0, _W, _R))
    hidden = site.attributes.get("hidden_size", recurrence[-1])
    rows = KINDS[site.node.op_type].gates * hidden
    if len(data) != _RANK:
        raise ModelImportError(
            f"data {data} have {len(data)} dimensions",
            f"node {site.label} ({site.node.op_type})",
            "they must be (steps, batch, columns), or the batch first where layout is 1",
        )
    if weight != (directions, rows, data[-1]) or recurrence != (directions, rows, hidden):
        raise ModelImportError(
            f"weights {weight} and {recurrence} for data {data}, {directions} directions and "
            f"{hidden} hidden values",
            f"node {site.label} ({site.node.op_type})",
            f"they must be {(directions, rows, data[-1])} and {(directions, rows, hidden)}",
        )


def _layer(site: Site) -> _Layer:
    batch_first = bool(site.attributes.get("layout", 0))
    length, batch = site.type(0).shape[:2][:: -1 if batch_first else 1]
    flag = site.attributes.get("linear_before_reset", site.attributes.get("input_forget", 0))
    return _Layer(
        site=site,
        kind=KINDS[site.node.op_type],
        length=length,
        batch=batch,
        hidden=site.type(_R).shape[-1],
        flag=bool(flag),
        batch_first=batch_first,
        mask=_mask(site, length, batch) if site.has(_LENGTHS) else None,
    )


def _mask(site: Site, length: int, batch: int) -> str | None:
    known = site.arrays.get(site.node.input[_LENGTHS])
    if known is not None:
        if known.min() < 0 or known.max() > length:
            raise ModelImportError(
                f"lengths of sequences must be 0 to {length}, got {known.tolist()}",
                f"node {site.label} ({site.node.op_type})",
                "give lengths within the data",
            )
        if known.min() == length:
            return None
    steps = np.arange(length, dtype=site.type(_LENGTHS).dtype).reshape(length, 1, 1)
    lengths = site.step(Reshape((1, batch, 1)), [site.input(_LENGTHS)])
    return site.step(BinaryOp("lt"), [site.add_constant("steps", steps), lengths])


def _until_all_end(layer: _Layer, data: str) -> str:
    """``data [length, batch, columns]``; zeros in the steps that no sequence has."""
    if layer.mask is None:
        return data
    site = layer.site
    some = site.step(ReduceOp("max", (1,), True), [layer.mask])
    return site.step(Where(), [some, data, site.scalar("zero", 0.0, site.type(0).dtype)])


def _weights(layer: _Layer, directions: int) -> Factors:
    """The node's own."""
    weights = Weights(layer.site)
    rows, split = layer.rows, _RESET * layer.hidden
    apart = layer.resets and not layer.flag
    ends = (0, split, rows) if apart else (0, rows)
    data, states = [], []
    for number in range(directions):
        data.append((weights.transposed(weights.pick(_W, number)),))
        whole = weights.pick(_R, number)
        parts = (weights.rows(whole, *pair) for pair in pairwise(ends))
        states.append([(weights.transposed(part),) for part in parts])
    return Factors(_multiplied, data, states)


def _multiplied(site: Site, value: str, matrix: Operand) -> str:
    return site.step(MatMul(), [value, *matrix])


def _direction(
    layer: _Layer,
    factors: Factors,
    number: int,
    backwards: bool,
    functions: Sequence[GateFunction],
    data: str,
) -> list[str]:
    """The last states and the sequence ``[length, batch, hidden]`` of one direction."""
    site, weights = layer.site, Weights(layer.site)
    shares, reset_bias = factors.multiply(site, data, factors.data[number]), None
    if site.has(_B):
        bias, reset_bias = _biases(layer, weights, number)
        shares = site.step(BinaryOp("add"), [shares, bias])
    body = _Body(layer, f"{site.node.op_type} step")
    states = tuple(
        body.input(f"state{state}", _initial(layer, weights, state, number), False)
        for state in range(layer.kind.states)
    )
    sliced = body.input("data", shares, True)
    mask = None if layer.mask is None else body.input("mask", layer.mask, True)
    inner = replace(site, builder=body.builder, layer=site.layer or site.label)
    values = Values(
        sliced,
        states,
        tuple(_by(factors, inner, body, matrix) for matrix in factors.states[number]),
        None if reset_bias is None else body.shared(reset_bias),
        tuple(body.shared(name) for name in _peepholes(layer, weights, number)),
    )
    clip = site.attributes.get("clip")
    cell = Cell(inner, clip, mask)
    following = layer.kind.step(cell, values, functions, layer.flag)
    return body.loop(cell, following, backwards)


def _by(factors: Factors, site: Site, body: _Body, matrix: Operand) -> Callable[[str], str]:
    """Multiplies values of the body by a matrix."""
    shared = [body.shared(name) for name in matrix]
    return lambda value: factors.multiply(site, value, shared)


def _biases(layer: _Layer, weights: Weights, number: int) -> tuple[str, str | None]:
    """What is added outside of the loop, and what GRU adds to what it resets."""
    both, rows = weights.pick(_B, number), layer.rows
    data, state = weights.rows(both, 0, rows), weights.rows(both, rows, 2 * rows)
    if not (layer.resets and layer.flag):
        return weights.sum(data, state), None
    split = _RESET * layer.hidden
    first = weights.sum(weights.rows(data, 0, split), weights.rows(state, 0, split))
    return weights.joined(first, weights.rows(data, split, rows)), weights.rows(state, split, rows)


def _peepholes(layer: _Layer, weights: Weights, number: int) -> list[str]:
    if not layer.site.has(_P):
        return []
    whole, hidden = weights.pick(_P, number), layer.hidden
    return [weights.rows(whole, n * hidden, (n + 1) * hidden) for n in range(3)]


def _initial(layer: _Layer, weights: Weights, state: int, number: int) -> str:
    """``[batch, hidden]``, zeros where nothing is given."""
    if layer.site.has(_H + state):
        return weights.pick(_H + state, number, axis=1 if layer.batch_first else 0)
    zeros = np.zeros((layer.batch, layer.hidden), np.float32).astype(layer.site.type(0).dtype)
    return layer.site.add_constant("initial", zeros)


class _Body:
    """The body of a loop while it is built, and what goes into the loop."""

    def __init__(self, layer: _Layer, name: str) -> None:
        self.builder = GraphBuilder(name)
        self._layer = layer
        self._operands: list[str] = []

    def input(self, label: str, source: str, sliced: bool) -> str:
        """The next input: ``source``, or its slices; returns its name in the body."""
        kind = self._layer.site.builder.types[source]
        shape = kind.shape[1:] if sliced else kind.shape
        self._operands.append(source)
        return self.builder.input(Value(label, shape, kind.dtype))

    def shared(self, source: str) -> str:
        """A value that is the same in all iterations; constants become the body's own.

        Nothing, of no name, stays so.
        """
        if not source:
            return source
        label = self.builder.unique("weight")
        constant = self._layer.site.builder.constants.get(source)
        if constant is None:
            return self.input(label, source, False)
        return self.builder.constant(label, constant)

    def loop(self, cell: Cell, following: Sequence[str], backwards: bool) -> list[str]:
        """Add the loop to the network: its last states, then all outputs."""
        layer = self._layer
        output = following[0]
        if cell.mask is not None:
            output = cell.add(Where(), cell.mask, output, cell.scalar(0.0, output))
        results = [Result(f"result{n}", name) for n, name in enumerate((*following, output))]
        function = ScanFunction(
            body=self.builder.finish(results),
            trips=layer.length,
            states=layer.kind.states,
            slices=1 if cell.mask is None else 2,
            backwards=backwards,
        )
        nodes = range(len(results))
        return [layer.site.step(Scan(function, index), self._operands) for index in nodes]


def _emit_sequence(layer: _Layer, found: Sequence[str]) -> None:
    """Y: ``[length, directions, batch, hidden]``, or the batch first."""
    site = layer.site
    if not site.wants(0):
        return
    if layer.batch_first:
        found = [site.step(Transpose((1, 0, 2)), [value]) for value in found]
        _emit_joined(site, 0, found, (layer.batch, layer.length, 1, layer.hidden), 2)
    else:
        _emit_joined(site, 0, found, (layer.length, 1, layer.batch, layer.hidden), 1)


def _emit_state(layer: _Layer, state: int, found: Sequence[str]) -> None:
    """Y_h or Y_c: ``[directions, batch, hidden]``, or the batch first."""
    if not layer.site.wants(1 + state):
        return
    if layer.batch_first:
        _emit_joined(layer.site, 1 + state, found, (layer.batch, 1, layer.hidden), 1)
    else:
        _emit_joined(layer.site, 1 + state, found, (1, layer.batch, layer.hidden), 0)


def _emit_joined(
    site: Site, index: int, found: Sequence[str], shape: tuple[int, ...], axis: int
) -> None:
    """Both directions next to each other; ``shape``: of one."""
    if len(found) == 1:
        site.emit(Reshape(shape), found, index)
        return
    parts = [site.step(Reshape(shape), [value]) for value in found]
    site.emit(Concat(axis), parts, index)


IMPORT_RECURRENT: Final[Mapping[str, Callable[[Site], None]]] = dict.fromkeys(
    KINDS, import_recurrent
)

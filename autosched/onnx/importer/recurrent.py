"""Importers of RNN, GRU and LSTM: one product for all time steps, then a loop over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from autosched.graph.errors import ModelImportError
from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.shape import Concat, Reshape, Transpose
from autosched.onnx.importer.gate_functions import GateFunction, gate_functions
from autosched.onnx.importer.recurrent_cells import KINDS
from autosched.onnx.importer.recurrent_inputs import (
    LENGTHS,
    Factors,
    Layer,
    R,
    W,
    loop_inputs,
    own_weights,
    reversed_in_time,
    side_by_side,
)
from autosched.onnx.importer.recurrent_loop import add_loop
from autosched.onnx.importer.site import Site, UnsupportedError
from sketch.lang.dtypes import is_float

_DIRECTIONS: Final = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
# Weights of one direction that stay in the cache of a core while it computes that direction alone.
# Larger ones are divided among the cores, one direction after the other.
_MOST_WEIGHTS: Final = 1 << 16


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
    factors = given or own_weights(layer, len(backwards))
    if given is None and _are_joined(layer, len(backwards)):
        found = _both_ways(layer, factors, functions[0], data)
    else:
        found = [
            add_loop(layer, factors, loop_inputs(layer, factors, number, data), *how)
            for number, how in enumerate(zip(functions, backwards, strict=True))
        ]
    _emit_sequence(layer, [outputs[-1] for outputs in found])
    for state in range(layer.kind.states):
        _emit_state(layer, state, [outputs[state] for outputs in found])


def _check_shapes(site: Site, directions: int) -> None:
    """Raise ModelImportError unless the weights fit each other and the data."""
    data, weight, recurrence = (site.type(index).shape for index in (0, W, R))
    hidden = site.attributes.get("hidden_size", recurrence[-1])
    rows = KINDS[site.node.op_type].gates * hidden
    if weight != (directions, rows, data[-1]) or recurrence != (directions, rows, hidden):
        raise ModelImportError(
            f"weights {weight} and {recurrence} for data {data}, {directions} directions and "
            f"{hidden} hidden values",
            f"node {site.label} ({site.node.op_type})",
            f"they must be {(directions, rows, data[-1])} and {(directions, rows, hidden)}",
        )


def _layer(site: Site) -> Layer:
    batch_first = bool(site.attributes.get("layout", 0))
    length, batch = site.type(0).shape[:2][:: -1 if batch_first else 1]
    flag = site.attributes.get("linear_before_reset", site.attributes.get("input_forget", 0))
    return Layer(
        site=site,
        kind=KINDS[site.node.op_type],
        length=length,
        batch=batch,
        hidden=site.type(R).shape[-1],
        flag=bool(flag),
        batch_first=batch_first,
        mask=_mask(site, length, batch) if site.has(LENGTHS) else None,
    )


def _mask(site: Site, length: int, batch: int) -> str | None:
    known = site.arrays.get(site.node.input[LENGTHS])
    if known is not None:
        if known.min() < 0 or known.max() > length:
            raise ModelImportError(
                f"lengths of sequences must be 0 to {length}, got {known.tolist()}",
                f"node {site.label} ({site.node.op_type})",
                "give lengths within the data",
            )
        if known.min() == length:
            return None
    steps = np.arange(length, dtype=site.type(LENGTHS).dtype).reshape(length, 1, 1)
    lengths = site.step(Reshape((1, batch, 1)), [site.input(LENGTHS)])
    return site.step(BinaryOp("lt"), [site.add_constant("steps", steps), lengths])


def _both_ways(
    layer: Layer, factors: Factors, functions: Sequence[GateFunction], data: str
) -> list[list[str]]:
    """Two directions in one loop: what ``add_loop`` returns, of each."""
    site = layer.site
    given = [data, reversed_in_time(site, data)]
    inputs = [loop_inputs(layer, factors, number, given[number]) for number in range(len(given))]
    *states, sequence = add_loop(layer, factors, side_by_side(layer, inputs), functions, False)
    found = []
    for number in range(len(given)):
        last = [_one_of(site, state, number, 0) for state in states]
        own = _one_of(site, sequence, number, 1)
        found.append([*last, reversed_in_time(site, own) if number else own])
    return found


def _one_of(site: Site, value: str, number: int, axis: int) -> str:
    """Element ``number`` along ``axis``, without that dimension."""
    shape = site.builder.types[value].shape
    start, stop = [0] * len(shape), list(shape)
    start[axis], stop[axis] = number, number + 1
    part = site.step(Slice(tuple(start), tuple(stop), (1,) * len(shape)), [value])
    return site.step(Reshape((*shape[:axis], *shape[axis + 1 :])), [part])


def _are_joined(layer: Layer, directions: int) -> bool:
    """Whether directions share a loop: they compute the same of weights that a cache holds."""
    attributes = layer.site.attributes
    names = attributes.get("activations", ())
    alike = [*names[: len(names) // 2]] == [*names[len(names) // 2 :]]
    plain = not any(attributes.get(f"activation_{name}") for name in ("alpha", "beta"))
    small = layer.rows * layer.hidden <= _MOST_WEIGHTS
    return directions > 1 and alike and plain and small


def _emit_sequence(layer: Layer, found: Sequence[str]) -> None:
    """Y: ``[length, directions, batch, hidden]``, or the batch first."""
    site = layer.site
    if not site.wants(0):
        return
    if layer.batch_first:
        found = [site.step(Transpose((1, 0, 2)), [value]) for value in found]
        _emit_joined(site, 0, found, (layer.batch, layer.length, 1, layer.hidden), 2)
    else:
        _emit_joined(site, 0, found, (layer.length, 1, layer.batch, layer.hidden), 1)


def _emit_state(layer: Layer, state: int, found: Sequence[str]) -> None:
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

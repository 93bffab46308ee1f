"""Normalisations of groups of channels, which can be computed channels last.

    reshape(normalize(reshape(x [n, c, *spatial], (n, g, -1)), axes 2), (n, c, *spatial))
    normalize(x [n, c, *spatial], all spatial axes)

The view of the first has the elements of a group in one row, in the order of the model.  Of what is
stored channels last it would be a copy, and another one would follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.norm import GroupNormalize, Normalize
from autosched.graph.ops.shape import Reshape


@dataclass(frozen=True, slots=True)
class GroupedChannels:
    """What a value is of ``source``, were both channels last.

    Attributes:
        source: ``[n, c, *spatial]``.
        op: the normalisation.
        inside: values on the way that nothing else reads.
    """

    source: str
    op: GroupNormalize
    inside: tuple[str, ...]


def grouped_channels(graph: Graph) -> Mapping[str, GroupedChannels]:
    """The normalisations of groups of channels, by their results."""
    found = {node.output: _normalized(graph, node) for node in graph.nodes}
    return {output: each for output, each in found.items() if each is not None}


def _normalized(graph: Graph, node: Node) -> GroupedChannels | None:
    match node.op:
        case Normalize(centered=True) as op:
            shape = graph.types[node.output].shape
            if len(shape) < 3 or _rows(op, shape) != prod(shape[:2]):
                return None
            return GroupedChannels(node.inputs[0], GroupNormalize(shape[1], op.epsilon), ())
        case Reshape():
            return _viewed(graph, node)
        case _:
            return None


def _viewed(graph: Graph, node: Node) -> GroupedChannels | None:
    """A view of rows that are normalised, where another view has made the rows."""
    normal = graph.producers.get(node.inputs[0])
    view = None if normal is None else graph.producers.get(normal.inputs[0])
    if normal is None or view is None or not isinstance(view.op, Reshape):
        return None
    source, inside = view.inputs[0], (view.output, normal.output)
    shape = graph.types[source].shape
    same = graph.types[node.output].shape == shape and len(shape) > 2
    if not same or any(_is_read_elsewhere(graph, value) for value in inside):
        return None
    if not isinstance(normal.op, Normalize) or not normal.op.centered:
        return None
    rows = _rows(normal.op, graph.types[normal.output].shape)
    groups, rest = divmod(rows or 0, shape[0])
    # One group needs no view: ``whole_normalization``.
    if groups < 2 or rest or shape[1] % groups:
        return None
    return GroupedChannels(source, GroupNormalize(groups, normal.op.epsilon), inside)


def _rows(op: Normalize, shape: tuple[int, ...]) -> int | None:
    """How many rows are normalised, where all of them are contiguous; None where they are not."""
    wide = [d for d, extent in enumerate(shape) if extent > 1]
    reduced = [d for d in wide if d in op.axes]
    if reduced != wide[len(wide) - len(reduced) :]:
        return None
    return prod(shape[d] for d in wide if d not in op.axes)


def _is_read_elsewhere(graph: Graph, value: str) -> bool:
    return value in graph.result_values or len(graph.consumers[value]) > 1

"""Dimensions of a value as products of dimensions of what it is a view, transpose or repeat of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.base import Shape
from autosched.graph.ops.movement import Expand
from autosched.graph.ops.shape import Reshape, Transpose


@dataclass(frozen=True, slots=True, eq=False)
class AxisFactor:
    """Part of a dimension, told apart from others of its extent by identity.

    ``repeated``: nothing is stored along it, all its indices find the same elements.
    """

    extent: int
    repeated: bool = False


@dataclass(slots=True)
class Factored:
    """A value as a view of ``source``, dimensions of extent 1 left out.

    Attributes:
        source: what is stored.
        stored: the factors of the source's dimensions, in its row-major order.
        dimensions: of the value, each a run of factors, outermost first.
        origins: layers between the source and the value.
    """

    source: str
    stored: list[AxisFactor]
    dimensions: list[list[AxisFactor]]
    origins: tuple[str, ...] = ()

    def split(self, factor: AxisFactor, inner: int) -> tuple[AxisFactor, AxisFactor]:
        """Two factors in place of one; ``inner``, the extent of the second, divides the whole."""
        parts = (
            AxisFactor(factor.extent // inner, factor.repeated),
            AxisFactor(inner, factor.repeated),
        )
        for run in (self.stored, *self.dimensions):
            if factor in run:
                place = run.index(factor)
                run[place : place + 1] = parts
        return parts


def factored(graph: Graph, name: str, known: Collection[str] = ()) -> Factored:
    """``name``, followed back through reshapes, transposes and repetitions as far as it is made of
    whole factors of one value.  What is ``known`` is not followed: values that are no longer
    computed from what the graph says.
    """
    nodes: list[Node] = []
    best = _plain(graph, name)
    while (node := graph.producers.get(name)) is not None:
        if name in known or not isinstance(node.op, Reshape | Transpose | Expand):
            break
        name = node.inputs[0]
        nodes.insert(0, node)
        found = _through(graph, name, nodes)
        if found is None:
            break
        best = found
    return best


def aligned(values: Sequence[Factored], places: Sequence[int]) -> bool:
    """Split factors until a dimension of two values consists of equal ones; whether that went.

    Args:
        values: changed in place; a dimension of no factors (its extent is 1) fits any.
        places: number of the dimension, for each value.
    """
    first, second = (value.dimensions[place] for value, place in zip(values, places, strict=True))
    if not first or not second:
        return True
    done = 0
    while done < len(first) and done < len(second):
        mine, theirs = first[-1 - done], second[-1 - done]
        if mine.extent > theirs.extent and mine.extent % theirs.extent == 0:
            values[0].split(mine, theirs.extent)
        elif theirs.extent > mine.extent and theirs.extent % mine.extent == 0:
            values[1].split(theirs, mine.extent)
        elif mine.extent != theirs.extent:
            return False
        done += 1
    return len(first) == len(second)


def _plain(graph: Graph, name: str) -> Factored:
    runs = [[AxisFactor(n)] if n > 1 else [] for n in graph.types[name].shape]
    return Factored(name, [factor for run in runs for factor in run], runs)


def _through(graph: Graph, source: str, nodes: Sequence[Node]) -> Factored | None:
    """The last of ``nodes``, each of which reads the one before, the first one ``source``."""
    value = _plain(graph, source)
    for node in nodes:
        match node.op:
            case Transpose(permutation):
                value.dimensions = [value.dimensions[axis] for axis in permutation]
            case Expand():
                _repeat(value, graph.types[node.inputs[0]].shape, graph.types[node.output].shape)
            case _:
                if not _reshape(value, graph.types[node.output].shape):
                    return None
        value.origins += node.origins
    return value


def _repeat(value: Factored, before: Shape, after: Shape) -> None:
    missing = len(after) - len(before)
    value.dimensions = [[] for _ in range(missing)] + value.dimensions
    for place, (old, new) in enumerate(zip((1,) * missing + before, after, strict=True)):
        if old != new:
            value.dimensions[place] = [AxisFactor(new, repeated=True)]


def _reshape(value: Factored, shape: Shape) -> bool:
    """Give ``value`` another shape; False where that would need half a factor."""
    pending = [factor for run in value.dimensions for factor in run]
    value.dimensions = [list(pending)]  # where ``split`` finds them
    runs: list[list[AxisFactor]] = []
    for extent in reversed(shape):
        run: list[AxisFactor] = []
        while extent > 1:
            factor = pending.pop()
            if extent % factor.extent == 0:
                run.insert(0, factor)
                extent //= factor.extent
            elif factor.extent % extent == 0:
                outer, inner = value.split(factor, extent)
                pending.append(outer)
                run.insert(0, inner)
                extent = 1
            else:
                return False
        runs.insert(0, run)
    value.dimensions = runs
    return True

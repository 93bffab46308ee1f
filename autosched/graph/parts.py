"""Where values lie that have no memory of their own: inside others, with other strides.

    x, y, joined = Concat(x, y), part = Slice(joined)   ->   x, y and part lie in joined

A kernel writes and reads such a value through strides, so neither joining nor taking apart copies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.base import Op, Shape
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.scan import Scan
from autosched.graph.ops.shape import Concat, Reshape
from sketch.nest.loopnest import row_major


@dataclass(frozen=True, slots=True)
class ValuePart:
    """Where a value lies in a larger one.

    Attributes:
        whole: the larger value, which has memory of its own.
        offset: elements from the whole's first to the value's first.
        strides: elements from one to the next along each dimension of the value.
    """

    whole: str
    offset: int
    strides: Shape

    def is_dense(self, shape: Shape) -> bool:
        """Whether a value of ``shape`` lies in one piece, in row-major order."""
        dense = _dense(shape)
        return all(
            mine == wanted or extent == 1
            for mine, wanted, extent in zip(self.strides, dense, shape, strict=True)
        )


def parts_of(
    graph: Graph, alone: Collection[str] = (), given: Collection[str] = ()
) -> dict[str, ValuePart]:
    """Where the values lie that lie inside others.

    What a slice is taken from has to be computed by this graph, or given as a whole: the states of
    a loop are elsewhere in every iteration.

    Args:
        graph: after ``split_concats``.
        alone: outputs of nodes that would be alone in their kernels; slices among them need none
            where all readers can read them in place, and none of these joins them.
        given: inputs that are arrays of a caller's.
    """
    found: dict[str, ValuePart] = {}
    inside = embedded(graph)
    for node in graph.nodes:
        if isinstance(node.op, Concat) and node.output not in inside:
            found |= _parts(graph, node)
    for name, (home, first) in inside.items():
        found[name] = found[graph.producers[home].inputs[first]]
    for node in graph.nodes:
        if isinstance(node.op, Slice) and node.output in alone and node.output not in found:
            found |= _slice(graph, node, found, given)
        elif isinstance(node.op, Reshape) and node.inputs[0] in found:
            shape = graph.types[node.inputs[0]].shape
            source = found[node.inputs[0]]
            strides = reshaped_strides(shape, source.strides, node.op.shape)
            if strides is not None:
                found[node.output] = ValuePart(source.whole, source.offset, strides)
    return found


def embedded(graph: Graph) -> dict[str, tuple[str, int]]:
    """Concatenations that lie in larger ones, as neighbouring operands of these.

    Returns:
        By name the larger concatenation, which lies in no other, and the number of the operand
        that comes first.
    """
    nodes = [node for node in graph.nodes if isinstance(node.op, Concat)]
    nodes.sort(key=lambda node: -len(node.inputs))
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for name in dict.fromkeys(node.inputs):
            readers.setdefault(name, []).append(node)
    found: dict[str, tuple[str, int]] = {}
    for node in nodes:
        for home in readers[node.inputs[0]]:
            first = -1 if home.output in found else _position(node, home)
            if first >= 0 and strided_readers(graph, node.output, operand_strides(graph, home)):
                found[node.output] = home.output, first
                break
    return found


def strided_readers(graph: Graph, name: str, strides: Shape) -> bool:
    """Whether all who read a value could read it if it lay with ``strides``: kernels can.

    Concatenations can, too: at worst they have it copied.  Loops, the host and whoever gets a
    result want it in one piece.
    """
    if name in graph.result_values:
        return False
    for reader in graph.consumers.get(name, ()):
        if reader.op.on_host or isinstance(reader.op, Scan):
            return False
        if isinstance(reader.op, Reshape):
            shaped = reshaped_strides(graph.types[name].shape, strides, reader.op.shape)
            if shaped is None or not strided_readers(graph, reader.output, shaped):
                return False
    return True


def computed_source(graph: Graph, name: str, strides: Shape) -> tuple[str, Shape] | None:
    """What is computed where a value, which may be a view of it, lies with ``strides``.

    Returns:
        The value that is no view, and its own strides there; None where it has none.
    """
    while isinstance(_operator(graph, name), Reshape):
        source = graph.producers[name].inputs[0]
        shaped = reshaped_strides(graph.types[name].shape, strides, graph.types[source].shape)
        if shaped is None:
            return None
        name, strides = source, shaped
    return name, strides


def operand_strides(graph: Graph, node: Node) -> Shape:
    """Of the operands of a concatenation that lies in no other."""
    return _dense(graph.types[node.output].shape)


def reshaped_strides(shape: Shape, strides: Shape, wanted: Shape) -> Shape | None:
    """Strides under which the elements of a strided array have another shape; None: there are none.

        reshaped_strides((4, 6), (12, 1), (4, 2, 3)) -> (12, 3, 1)

    Args:
        shape: of the array.
        strides: of the array, in elements.
        wanted: another shape of as many elements.
    """
    runs = list(_runs(shape, strides))
    result: list[int] = []
    for extent in reversed(wanted):
        if extent == 1:
            result.append(1)
            continue
        while runs and runs[-1][0] == 1:
            runs.pop()
        count, stride = runs.pop()
        if count % extent:
            return None
        result.append(stride)
        runs.append((count // extent, stride * extent))
    return tuple(reversed(result))


def _runs(shape: Shape, strides: Shape) -> Iterator[tuple[int, int]]:
    """(extent, stride) of the fewest dimensions that the array has."""
    count, last = 1, 0
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 1:
            continue
        if count > 1 and last != extent * stride:
            yield count, last
            count = 1
        count, last = count * extent, stride
    yield count, last or 1


def _parts(graph: Graph, node: Node) -> Iterator[tuple[str, ValuePart]]:
    strides = operand_strides(graph, node)
    assert isinstance(node.op, Concat)
    start = 0
    for name in node.inputs:
        offset = start * strides[node.op.axis]
        yield name, ValuePart(node.output, offset, strides)
        source = computed_source(graph, name, strides)
        assert source is not None  # what has no strides there was copied
        yield source[0], ValuePart(node.output, offset, source[1])
        start += graph.types[name].shape[node.op.axis]


def _position(node: Node, home: Node) -> int:
    """Where the operands of ``node`` begin among more operands of ``home``; -1: nowhere."""
    count = len(node.inputs)
    if node.op != home.op or count >= len(home.inputs):
        return -1
    starts = range(len(home.inputs) - count + 1)
    return next((s for s in starts if home.inputs[s : s + count] == node.inputs), -1)


def _slice(
    graph: Graph, node: Node, found: Mapping[str, ValuePart], given: Collection[str]
) -> dict[str, ValuePart]:
    """The place of a slice that is read where it lies; nothing if it has to be computed.

    Args:
        graph: that the slice is in.
        node: the slice.
        found: the parts that are known.
        given: inputs that slices may be taken from.
    """
    assert isinstance(node.op, Slice)
    name = node.inputs[0]
    source = found.get(name) or _own_memory(graph, name, given)
    if source is None:
        return {}
    strides = tuple(s * step for s, step in zip(source.strides, node.op.step, strict=True))
    if strides[-1:] != (1,) or min(node.op.step) < 1:
        return {}
    if not strided_readers(graph, node.output, strides):
        return {}
    starts = zip(node.op.start, source.strides, strict=True)
    offset = source.offset + sum(start * stride for start, stride in starts)
    return {node.output: ValuePart(source.whole, offset, strides)}


def _own_memory(graph: Graph, name: str, given: Collection[str]) -> ValuePart | None:
    """The place of a value that a kernel of the graph computes or that is given, or of a view."""
    home = name
    while home not in graph.result_values and isinstance(_operator(graph, home), Reshape):
        home = graph.producers[home].inputs[0]
    operator = _operator(graph, home)
    computed = operator is not None and not operator.on_host and not isinstance(operator, Scan)
    if home in graph.result_values or not (computed or home in given):
        return None
    return ValuePart(home, 0, _dense(graph.types[name].shape))


def _operator(graph: Graph, name: str) -> Op | None:
    producer = graph.producers.get(name)
    return None if producer is None else producer.op


def _dense(shape: Shape) -> Shape:
    return tuple(int(stride) for stride in row_major(shape))

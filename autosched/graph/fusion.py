"""Which nodes share a kernel: FuseOps over post-dominators (Chen et al., OSDI'18, section 3).

1. An anchor (convolution, dense, pooling, reduction) takes the element-wise and broadcast nodes
   after it, as long as all paths from its output meet again (a diamond is taken whole or not at
   all) and shapes stay those of the anchor.  Deep anchors choose first: where two convolutions
   meet in an addition, the one that is ready last computes it (in residual networks that of the
   main path, so that blocks with and without a convolution in the shortcut share a task).
2. What is left of element-wise, broadcast and injective nodes forms chains in the same way.
3. Such a chain moves into the chain that is its only reader and goes on with its shape: a sum of
   two slices is one kernel.
4. What is left of the chains moves into the reduction that is its only reader, and the transposed
   image of few channels into its convolution; where a chain quantises it, the transposition alone.
5. What makes wider numbers of bytes or of 16-bit floats moves to the group that is its only reader,
   whichever that is: the narrow ones are what is stored.

Nodes that are views (reshape), joined in memory (concatenation) or opaque stay outside, or alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.base import Pattern
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.pooling import Pool
from autosched.graph.ops.shape import Concat, Reshape, Transpose
from sketch.lang.dtypes import BYTES, STORAGE_FLOATS

# Larger groups become several kernels: code grows with them, and what is gained does not.
MOST_NODES: Final = 64
_FEW_CHANNELS: Final = 3  # fewer than the shortest vector has lanes
_NARROW: Final = (*BYTES, *STORAGE_FLOATS)
_EXIT: Final = -1  # the virtual node that reads all outputs


@dataclass(frozen=True, slots=True)
class FusedGroup:
    """Nodes of one kernel, in topological order; only the last one's output leaves the group."""

    nodes: tuple[Node, ...]

    @property
    def root(self) -> Node:
        return self.nodes[-1]


def fuse(graph: Graph) -> tuple[FusedGroup, ...]:
    """Partition the nodes of ``graph`` into groups in execution order.

    Views and concatenations compute nothing and are in no group.
    """
    return _Fusion(graph).groups()


class _Fusion:
    """The partition while it grows: the group of each node, by position in the graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes = graph.nodes
        self._position = {node.output: index for index, node in enumerate(graph.nodes)}
        self._readers = [self._readers_of(node) for node in graph.nodes]
        self._dominator = _post_dominators(self._readers)
        self._group: dict[int, list[int]] = {}

    def groups(self) -> tuple[FusedGroup, ...]:
        anchors = [
            index
            for index, node in enumerate(self._nodes)
            if node.op.pattern in (Pattern.REDUCTION, Pattern.COMPLEX)
        ]
        depths = self._depths()
        for index in sorted(anchors, key=lambda i: (-depths[i], i)):
            self._grow(index, Pattern.BROADCAST, same_shape=True)
            self._hand_over(index)
        for index, node in enumerate(self._nodes):
            if index not in self._group and node.op.pattern <= Pattern.INJECTIVE:
                self._grow(index, Pattern.INJECTIVE, same_shape=False)
        self._join_chains()
        for index in anchors:
            self._take_prologue(index)
        for index, node in enumerate(self._nodes):
            if index not in self._group and not isinstance(node.op, Reshape | Concat):
                self._group[index] = [index]
        # a group runs when the last of its nodes may run; that order is topological
        distinct = {id(members): members for members in self._group.values()}
        ordered = sorted((sorted(members) for members in distinct.values()), key=lambda m: m[-1])
        return tuple(FusedGroup(tuple(self._nodes[i] for i in members)) for members in ordered)

    def _readers_of(self, node: Node) -> tuple[int, ...]:
        readers = [self._position[r.output] for r in self._graph.consumers.get(node.output, ())]
        leaves = node.output in self._graph.result_values or not readers
        return (*readers, _EXIT) if leaves else tuple(readers)

    def _depths(self) -> list[int]:
        """Length of the longest chain of nodes up to each node."""
        depths: list[int] = []
        for node in self._nodes:
            sources = (self._position[name] for name in node.inputs if name in self._position)
            depths.append(1 + max((depths[source] for source in sources), default=0))
        return depths

    def _grow(self, start: int, limit: Pattern, same_shape: bool) -> None:
        """Extend the group of ``start`` by one post-dominator after the other."""
        members = [start]
        self._group[start] = members
        shape = self._shape(start)
        sink = self._dominator[start]
        while sink != _EXIT:
            added = [*self._between(members[-1], sink), sink]
            if len(members) + len(added) > MOST_NODES:
                return
            if any(not self._may_join(i, limit) for i in added):
                return
            if same_shape and any(self._shape(i) != shape for i in added):
                return
            members.extend(added)
            self._group.update(dict.fromkeys(added, members))
            sink = self._dominator[sink]

    def _may_join(self, index: int, limit: Pattern) -> bool:
        return index not in self._group and self._nodes[index].op.pattern <= limit

    def _shape(self, index: int) -> tuple[int, ...]:
        return self._graph.types[self._nodes[index].output].shape

    def _between(self, start: int, sink: int) -> list[int]:
        """Nodes on the paths from ``start`` to its post-dominator ``sink``, both excluded."""
        found: set[int] = set()
        pending = list(self._readers[start])
        while pending:
            index = pending.pop()
            if index != sink and index not in found:
                found.add(index)
                pending.extend(self._readers[index])
        return sorted(found)

    def _join_chains(self) -> None:
        """Move chains into chains, the last ones first, so that what they read can follow."""
        for index in range(len(self._nodes) - 1, -1, -1):
            chain = self._group.get(index)
            if chain is None or chain[-1] != index or not self._is_chain(chain):
                continue
            reader = self._only_reader(index)
            if reader is None or len(chain) + len(reader) > MOST_NODES:
                continue
            if self._is_chain(reader) or self._widens(chain):
                joined = sorted((*chain, *reader))
                self._group.update(dict.fromkeys(joined, joined))

    def _hand_over(self, anchor: int) -> None:
        """Leave to its reader what makes wider numbers of the last narrow ones of a group."""
        members = self._group[anchor]
        last = max((p for p, i in enumerate(members) if self._is_narrow(i)), default=len(members))
        wide = members[last + 1 :]
        if not wide or not self._widens(wide):
            return
        reader = self._only_reader(wide[-1]) or self._only_reduction(wide[-1])
        if reader is None or len(wide) + len(reader) > MOST_NODES:
            return
        del members[last + 1 :]
        joined = sorted((*wide, *reader))
        self._group.update(dict.fromkeys(joined, joined))

    def _widens(self, members: Sequence[int]) -> bool:
        """Whether nodes compute wider elements of narrow ones of one value, and of constants."""
        made = {self._nodes[i].output for i in members}
        read = {name for i in members for name in self._nodes[i].inputs} - made
        given = [name for name in read if name not in self._graph.constants]
        return (
            len(given) == 1
            and self._graph.types[given[0]].dtype in _NARROW
            and all(self._nodes[i].op.pattern <= Pattern.BROADCAST for i in members)
            and not self._is_narrow(members[-1])
        )

    def _is_narrow(self, index: int) -> bool:
        return self._graph.types[self._nodes[index].output].dtype in _NARROW

    def _only_reduction(self, index: int) -> list[int] | None:
        """The group of the reduction that alone reads a node."""
        (reader, *others) = self._readers[index]
        alone = reader != _EXIT and not others
        reduces = alone and self._nodes[reader].op.pattern == Pattern.REDUCTION
        first = reduces and self._nodes[reader].inputs[0] == self._nodes[index].output
        return self._group.get(reader) if first else None

    def _is_chain(self, members: Sequence[int]) -> bool:
        return all(self._nodes[i].op.pattern <= Pattern.INJECTIVE for i in members)

    def _only_reader(self, index: int) -> list[int] | None:
        """The group that alone reads a node, element for element."""
        readers = self._readers[index]
        groups = [self._group.get(reader) for reader in readers]
        first = groups[0]
        if first is None or any(group is not first for group in groups):
            return None
        plain = all(
            self._nodes[reader].op.pattern <= Pattern.BROADCAST
            and self._shape(reader) == self._shape(index)
            for reader in readers
        )
        return first if plain else None

    def _take_prologue(self, anchor: int) -> None:
        """Move the chain that only this reduction reads into it.

        Softmax reads its input three times, normalisation twice, convolutions and pools read each
        element for several windows: there a chain would be computed again and again, so it keeps
        its own kernel.
        """
        node = self._nodes[anchor]
        source = self._position.get(node.inputs[0])
        if source is None or self._readers[source] != (anchor,):
            return
        chain = self._group.get(source)
        if chain is None or not self._is_chain(chain):
            return
        whole, alone = chain, self._is_turned_image([source], node)
        if alone and self._is_of_bytes(chain, source):
            chain = [source]
        once = node.op.pattern == Pattern.REDUCTION and node.op.reads_once
        again = node.op.pattern == Pattern.REDUCTION and self._widens(chain)
        inside = self._is_pooled(chain, node) or self._is_turned_image(chain, node)
        if not (once or again or inside):
            return
        members = self._group[anchor]
        if len(members) + len(chain) > MOST_NODES:
            return
        if chain is not whole:
            whole.remove(source)
        members.extend(chain)
        self._group.update(dict.fromkeys(chain, members))

    def _is_pooled(self, chain: Sequence[int], reader: Node) -> bool:
        """Whether the chain only makes wider numbers of the bfloat16 that a pool reads.

        That shifts them, which costs less than to read each of them twice as wide.
        """
        (first, *others) = chain
        given = self._graph.types[self._nodes[first].inputs[0]].dtype
        return isinstance(reader.op, Pool) and not others and given == "bfloat16"

    def _is_of_bytes(self, chain: Sequence[int], last: int) -> bool:
        """Whether what is before the last node of a chain makes bytes, and for that node alone.

        Quantised where it lies, an image is written by whole vectors.
        """
        before = self._position.get(self._nodes[last].inputs[0])
        if before is None or before not in chain or self._readers[before] != (last,):
            return False
        return self._graph.types[self._nodes[before].output].dtype in BYTES

    def _is_turned_image(self, chain: Sequence[int], reader: Node) -> bool:
        """Whether the chain only brings few channels of a convolution's image to the end.

        That computes nothing, and lanes do not run along so few: the convolution finds its numbers
        where they are.
        """
        return (
            isinstance(reader.op, Conv)
            and len(chain) == 1
            and isinstance(self._nodes[chain[0]].op, Transpose)
            and self._shape(chain[0])[-1] <= _FEW_CHANNELS
        )


def _post_dominators(readers: Sequence[tuple[int, ...]]) -> list[int]:
    """The immediate post-dominator of every node; nodes are in topological order."""
    dominator = [_EXIT] * len(readers)
    depth = {_EXIT: 0}
    for index in range(len(readers) - 1, -1, -1):
        common = readers[index][0]
        for reader in readers[index][1:]:
            common = _common(common, reader, dominator, depth)
        dominator[index] = common
        depth[index] = depth[common] + 1
    return dominator


def _common(lhs: int, rhs: int, dominator: Sequence[int], depth: dict[int, int]) -> int:
    while lhs != rhs:
        if depth[lhs] < depth[rhs]:
            lhs, rhs = rhs, lhs
        lhs = dominator[lhs]
    return lhs

"""Products read repeated operands where they are stored once.

Where several heads of queries share a head of keys and values, models repeat keys and values before
the product: a copy of the whole cache for each repetition.  The product has the repetition as a
dimension of its own instead, which the repeated operand does not have.

``a [b, 4, i, k] @ repeat(c [b, 2, k, j])`` becomes the einsum ``Ggik, Gkj -> Ggij`` for each b, and
its operands and result are views.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from string import ascii_letters

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.matmul import MatMul, matmul_labels
from autosched.graph.ops.shape import Reshape, Transpose
from autosched.graph.passes.factors import AxisFactor, Factored, aligned, factored


def fold_repeats(graph: Graph) -> Graph:
    """``graph`` with the rewrite above, for products of two operands."""
    builder = GraphBuilder.from_graph(graph)
    done: set[str] = set()
    for node in graph.nodes:
        if node.output in done:
            continue
        product = _product(graph, node, done)
        if product is None:
            builder.copy(node, node.inputs)
        else:
            done.add(_emit(builder, graph, node, product))
    return builder.finish(graph.results)


class _Product:
    """A product of two operands whose dimensions are runs of factors."""

    def __init__(self, operands: Sequence[Factored], labels: Sequence[str], output: str) -> None:
        """``output``: labels of the result's dimensions; each is a run of letters then."""
        self.operands = operands
        letters = iter(ascii_letters)
        self._letters: dict[AxisFactor, str] = {}
        found: dict[str, tuple[AxisFactor, ...]] = {}
        for label in dict.fromkeys("".join(labels)):
            runs = [
                operand.dimensions[own.index(label)]
                for operand, own in zip(operands, labels, strict=True)
                if label in own
            ]
            for together in zip(*(run for run in runs if run), strict=True):
                self._letters |= dict.fromkeys(together, next(letters))
            found[label] = next((tuple(run) for run in runs if run), ())
        self.result = tuple(found[label] for label in output)

    @property
    def is_sound(self) -> bool:
        """Whether every letter of the result and of the sum is one of an operand's elements."""
        read = set("".join(map(self.labels, self.operands)))
        return read == set(self._letters.values()) and all(map(self.labels, self.operands))

    def labels(self, operand: Factored) -> str:
        """A letter for each dimension of what is stored."""
        return "".join(self._letters[factor] for factor in operand.stored)

    def run(self, dimension: int) -> str:
        """The letters that dimension of the result consists of."""
        return "".join(self._letters[factor] for factor in self.result[dimension])


def _product(graph: Graph, node: Node, done: Collection[str]) -> _Product | None:
    """What ``node`` computes from operands stored once; None: nothing is repeated, or it is no
    product of that form.  ``done``: values that views of other products are already.
    """
    if isinstance(node.op, Einsum):
        labels, output = node.op.labels, node.op.output
    elif isinstance(node.op, MatMul) and node.op.dtype is None:
        labels, output = matmul_labels(*(len(graph.types[name].shape) for name in node.inputs))
    else:
        return None
    if len(labels) != 2 or any(len(set(own)) < len(own) for own in labels):
        return None
    operands = [factored(graph, name, done) for name in node.inputs]
    if not any(factor.repeated for each in operands for run in each.dimensions for factor in run):
        return None
    for label in set(labels[0]) & set(labels[1]):
        places = [own.index(label) for own in labels]
        if not aligned(operands, places):
            return None
    product = _Product(operands, labels, output)
    return product if product.is_sound else None


def _emit(builder: GraphBuilder, graph: Graph, node: Node, product: _Product) -> str:
    """Add the product, and the view of its result that others read; returns the name of that."""
    after = _transpose_after(graph, node)
    rank = len(graph.types[node.output].shape)
    order = range(rank) if after is None else after.op.permutation  # type: ignore[attr-defined]
    inputs = []
    for operand in product.operands:
        shape = tuple(factor.extent for factor in operand.stored)
        name = operand.source
        if graph.types[name].shape != shape:
            name = builder.add(Reshape(shape), (name,), origins=())
        inputs.append(name)
    labels = tuple(map(product.labels, product.operands))
    op = Einsum(labels, "".join(map(product.run, order)))
    moved = chain.from_iterable(operand.origins for operand in product.operands)
    last = node if after is None else after
    origins = (*moved, *node.origins, *(() if after is None else after.origins))
    whole = builder.add(op, inputs, builder.unique(f"{node.output}.split"), node.name, origins)
    view = builder.unique(f"{last.name}.view")
    return builder.add(Reshape(graph.types[last.output].shape), (whole,), last.output, view, ())


def _transpose_after(graph: Graph, node: Node) -> Node | None:
    """The transpose that alone reads the product."""
    readers = graph.consumers.get(node.output, ())
    if len(readers) != 1 or node.output in graph.result_values:
        return None
    return readers[0] if isinstance(readers[0].op, Transpose) else None

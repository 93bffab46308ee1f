"""A fused group as a compute DAG, with the graph's values behind its placeholders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from autosched.graph.fusion import FusedGroup
from autosched.graph.ir import Array, Graph, Node
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import COMMUTATIVE, BinaryOp
from autosched.graph.ops.lowering import lower
from autosched.graph.ops.matmul import Dense, MatMul
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import Compute, Tensor, placeholder
from sketch.operators.shared_buffer import apply_to_parts

_BIAS_ROLE: Final = 2  # position of the bias among the inputs of convolutions and Dense


@dataclass(frozen=True, slots=True, eq=False)
class Subgraph:
    """One kernel call of a network.

    Attributes:
        name: unique in the network, made of the fused operators.
        dag: the program; subgraphs of one task share the very same object.
        inputs: placeholder name -> name of the graph value that it reads (never a view).
        constants: placeholder name -> array, for the placeholders marked constant.
        output: name of the graph value that it computes.
        output_name: name of the array in the program's results.
        layers: the model's own layers that it computes.
    """

    name: str
    dag: ComputeDAG
    inputs: Mapping[str, str]
    constants: Mapping[str, Array]
    output: str
    output_name: str
    layers: tuple[str, ...]

    @property
    def task_key(self) -> str:
        """Structural key of the program."""
        return self.dag.key


@dataclass(frozen=True, slots=True, eq=False)
class LoweredGroup:
    """The program of a group, and which graph value each placeholder stands for."""

    name: str
    dag: ComputeDAG
    operands: Mapping[str, str]


def lower_group(graph: Graph, group: FusedGroup) -> LoweredGroup:
    """Express ``group`` as a program.

    Names of placeholders and stages come from roles and operators, in order of use, so that equal
    groups give programs that are equal to the letter.
    """
    lowering = _GroupLowering(graph)
    for node in group.nodes:
        lowering.add(node)
    dag = ComputeDAG(lowering.outputs(group.root))
    return LoweredGroup("_".join(lowering.kinds), dag, lowering.operands)


@dataclass(frozen=True, slots=True, eq=False)
class _SplitValue:
    """A graph value that several stages compute; what follows is written as if of ``whole``."""

    value: str
    parts: tuple[Tensor, ...]
    whole: Tensor


class _GroupLowering:
    """Tensors made so far, by the graph value they stand for."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._names: set[str] = set()
        self._split: _SplitValue | None = None
        self.results: dict[str, tuple[Tensor, ...]] = {}
        self.operands: dict[str, str] = {}
        self.kinds: list[str] = []

    def add(self, node: Node) -> None:
        """Append the stages of one node."""
        tensors = [
            self._operand(node, value, index) for index, value in enumerate(self._ordered(node))
        ]
        name = self._unique(node.op.kind)
        self.kinds.append(node.op.kind)
        if isinstance(node.op, Conv | Dense) and len(tensors) > _BIAS_ROLE:
            self.kinds.append("bias")
        results = lower(node.op, tensors, name)
        if any(isinstance(t.op, Compute) and t.op.store is not None for t in results):
            kind = self._graph.types[node.output]
            whole = placeholder(kind.shape, kind.dtype, f"{name}.whole")
            self._split = _SplitValue(node.output, results, whole)
            results = (whole,)
        self.results[node.output] = results

    def outputs(self, root: Node) -> tuple[Tensor, ...]:
        """The tensors that together are the output of ``root``, the last node of the group."""
        results, split = self.results[root.output], self._split
        if split is None:
            return results
        if split.value == root.output:
            return split.parts
        return apply_to_parts(split.parts, split.whole, results[0], results[0].name)

    def _ordered(self, node: Node) -> tuple[str, ...]:
        """The operands; those of commutative operators in an order that follows from structure.

        Values of the group come first, then large before small, variable before constant.
        """
        if not isinstance(node.op, BinaryOp) or node.op.function not in COMMUTATIVE:
            return node.inputs
        types, constants = self._graph.types, self._graph.constants
        known = {name: position for position, name in enumerate(self.results)}

        def rank(name: str) -> tuple[int, int, int, bool]:
            kind = types[name]
            place = known.get(name, len(known))
            return place, -kind.size, len(kind.shape), name in constants

        return tuple(sorted(node.inputs, key=rank))

    def _operand(self, node: Node, value: str, index: int) -> Tensor:
        if value not in self.results:
            self.results[value] = (self._given(node, value, index),)
        elif index and self._is_squared(node, value):
            return self._given(node, value, index)
        return self.results[value][0]

    def _given(self, node: Node, value: str, index: int) -> Tensor:
        roles = node.op.roles
        label = self._unique(roles[min(index, len(roles) - 1)])
        kind = self._graph.types[value]
        self.operands[label] = value
        return placeholder(kind.shape, kind.dtype, label, value in self._graph.constants)

    def _is_squared(self, node: Node, value: str) -> bool:
        """Whether a product multiplies a value by itself, in other orders: it is read in two ways,
        and only what is read in one way can be packed.
        """
        given = value in self.operands.values() and value not in self._graph.constants
        return isinstance(node.op, Einsum | MatMul) and given and set(node.inputs) == {value}

    def _unique(self, name: str) -> str:
        candidate, number = name, 0
        while candidate in self._names:
            number += 1
            candidate = f"{name}{number}"
        self._names.add(candidate)
        return candidate

"""Loops over a sequence: a body network that is executed once for each slice, with states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from autosched.graph.errors import GraphError
from autosched.graph.ir import Graph
from autosched.graph.ops.base import Op, Pattern, TensorType, expect_inputs


@dataclass(frozen=True, slots=True, eq=False)
class ScanFunction:
    """A body, and how the iterations are connected.

    The body's inputs are the states, then a slice of each sequence along its first dimension, then
    values that are the same in all iterations.  Its results are the next states, then values that
    are stacked along a new first dimension.

    Attributes:
        body: what one iteration computes: kernels only, no further loop.
        trips: number of iterations, the extent of all sequences and stacks.
        states, slices: how many of the inputs are states, and slices.
        backwards: iteration 0 takes the last slices and fills the last places of the stacks.

    Raises:
        GraphError: the numbers do not fit the body, or it has operators that it must not have.
    """

    body: Graph = field(repr=False)
    trips: int
    states: int
    slices: int
    backwards: bool = False

    def __post_init__(self) -> None:
        where = f"body {self.body.name}"
        for node in self.body.nodes:
            if node.op.on_host or isinstance(node.op, Scan):
                raise GraphError(f"{node.op.kind} cannot be part of a loop", where)
        inputs, results = self.body.inputs, self.body.outputs
        if self.trips < 1 or len(inputs) < self.states + self.slices or len(results) < self.states:
            raise GraphError(
                f"{len(inputs)} inputs and {len(results)} results for {self.states} states and "
                f"{self.slices} slices in {self.trips} iterations",
                where,
            )
        for value, result in zip(inputs[: self.states], results[: self.states], strict=True):
            if value.type != result.type:
                raise GraphError(f"state {value.type} becomes {result.type}", where)


@dataclass(frozen=True, slots=True)
class Scan(Op):
    """Result ``index`` of a loop: the last of a state, or a stack.

    The inputs are the first states, the sequences, and what all iterations share.  A loop of
    several results is several nodes of one ``function`` and equal inputs, executed once.
    """

    pattern: ClassVar[Pattern] = Pattern.OPAQUE
    roles: ClassVar[tuple[str, ...]] = ("value",)

    function: ScanFunction
    index: int

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        function = self.function
        body = function.body
        expect_inputs(self, inputs, len(body.inputs))
        sequences = range(function.states, function.states + function.slices)
        for number, (given, value) in enumerate(zip(inputs, body.inputs, strict=True)):
            stacked = (function.trips,) if number in sequences else ()
            wanted = TensorType((*stacked, *value.shape), value.dtype)
            if given != wanted:
                raise GraphError(f"input {number} of the loop must be {wanted}, got {given}")
        result = body.outputs[self.index]
        stacked = (function.trips,) if self.index >= function.states else ()
        return TensorType((*stacked, *result.shape), result.dtype)

    def __str__(self) -> str:
        return f"scan[{self.index}] of {self.function.trips} x {self.function.body.name}"

"""Programs with some of their stages replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sketch.dag.dag import MOST_STAGES, ComputeDAG, collect, repeated_names
from sketch.lang.expr import Expr, Load
from sketch.lang.rewrite import rewrite
from sketch.lang.tensor import Compute, Operation, Tensor

Replacement = Callable[[Compute, Callable[[Tensor], Tensor]], Tensor | None]
"""(stage, what stands for a tensor that it reads) -> what computes it instead; None: itself."""


def rebuild(dag: ComputeDAG, replacement: Replacement) -> ComputeDAG | None:
    """``dag`` with the replacements of its stages, which have the same shapes and one output.

    None where that is no program: a constant that several stages read has one form and one name,
    names of the replacements are free, and there is a limit on their number.
    """
    made: dict[int, Operation] = {}

    def current(tensor: Tensor) -> Tensor:
        return Tensor(made.get(id(tensor.op), tensor.op), tensor.output)

    def leaf(node: Expr) -> Expr | None:
        if isinstance(node, Load) and id(node.tensor.op) in made:
            indices = tuple(rewrite(index, leaf) for index in node.indices)
            return Load(current(node.tensor), indices)
        return None

    for op in dag.stages:
        other = replacement(op, current)
        if other is not None:
            made[id(op)] = other.op
            continue
        bodies = tuple(rewrite(body, leaf) for body in op.bodies)
        if any(new is not old for new, old in zip(bodies, op.bodies, strict=True)):
            made[id(op)] = replace(op, bodies=bodies)
    outputs = tuple(current(tensor) for tensor in dag.outputs)
    stages, inputs = collect(outputs)
    if len(stages) > MOST_STAGES or repeated_names(stages, inputs):
        return None
    return ComputeDAG(outputs)

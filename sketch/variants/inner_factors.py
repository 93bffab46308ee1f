"""Elements that are made wider, or rounded, where they are multiplied rather than by stages before.

    wide[h, w, c] = float32(x[h, w, c])
    y[h, w, o] = sum over p, q, c of wide[h + p, w + q, c] * f[p, q, c, o]

    y[h, w, o] = sum over p, q, c of float32(x[h + p, w + q, c]) * f[p, q, c, o]

What is made of the operands then, the zeros around them or their pixels one after the other, is as
narrow as they are, and units see what is multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import size_of
from sketch.lang.expr import Cast, Expr, Load, Unary
from sketch.lang.operator_names import ROUND_TF32
from sketch.lang.rewrite import rewrite, walk
from sketch.lang.tensor import Compute, Tensor
from sketch.variants.rebuild import rebuild


def with_inner_factors(dag: ComputeDAG) -> ComputeDAG:
    """The same program without such stages; ``dag`` itself where it has none."""
    outputs = {id(tensor.op) for tensor in dag.outputs}
    inner = {id(op): op for op in dag.stages if id(op) not in outputs and _is_factor(op)}
    if not inner:
        return dag

    def replacement(op: Compute, current: Callable[[Tensor], Tensor]) -> Tensor | None:
        loads = (node for body in op.bodies for node in walk(body) if isinstance(node, Load))
        if id(op) in inner or not any(id(load.tensor.op) in inner for load in loads):
            return None

        def leaf(node: Expr) -> Expr | None:
            if not isinstance(node, Load):
                return None
            indices = tuple(rewrite(index, leaf) for index in node.indices)
            factor = inner.get(id(node.tensor.op))
            if factor is None:
                return Load(current(node.tensor), indices)
            return _at(factor, indices, current)

        return Tensor(replace(op, bodies=tuple(rewrite(body, leaf) for body in op.bodies)))

    return rebuild(dag, replacement) or dag


def _is_factor(op: Compute) -> bool:
    """Whether a stage is one element of a tensor at each of its places, wider or rounded."""
    if op.store is not None or len(op.bodies) != 1:
        return False
    match op.bodies[0]:
        case Cast(Load(_, indices) as load, dtype):
            return indices == op.axes and size_of(load.dtype) < size_of(dtype)
        case Unary(name, Load(_, indices), _):
            return name == ROUND_TF32 and indices == op.axes
    return False


def _at(op: Compute, indices: tuple[Expr, ...], current: Callable[[Tensor], Tensor]) -> Expr:
    """The element of a factor at a place."""
    places: Mapping[Expr, Expr] = dict(zip(op.axes, indices, strict=True))

    def leaf(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            return Load(current(node.tensor), tuple(rewrite(i, leaf) for i in node.indices))
        return places.get(node)

    return rewrite(op.bodies[0], leaf)

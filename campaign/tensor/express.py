"""A program of the campaign as the product's own expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from campaign.verdict import Json
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Axis, Const, Expr, Reducer, Var, binary, cast, select, unary
from sketch.lang.functions import exp, maximum
from sketch.lang.tensor import SharedBuffer, StoreMap, Tensor, compute, placeholder, reduce_axis

# The identity of a running maximum whose shifted exponential must stay a number.
LOWEST: Final = -1e30


def dag_of(program: Json) -> ComputeDAG:
    """The program, built with the public functions."""
    tensors: dict[str, Tensor] = {
        entry["name"]: placeholder(
            entry["shape"], entry["dtype"], entry["name"], constant=entry["constant"]
        )
        for entry in program["inputs"]
    }
    buffers: dict[str, Tensor | list[Tensor]] = {}
    arrays: dict[tuple[str, tuple[int, ...]], SharedBuffer] = {}
    for stage in program["stages"]:
        made = _stage(stage, tensors, arrays)
        tensors |= {tensor.name: tensor for tensor in made}
        if stage["store"] is not None:
            found = buffers.setdefault(stage["store"]["buffer"], [])
            assert isinstance(found, list)
            found += made
    outputs: list[Tensor] = []
    for name in program["outputs"]:
        shared = buffers.get(name)
        outputs += shared if isinstance(shared, list) else [tensors[name]]
    return ComputeDAG(outputs)


def _stage(
    stage: Json,
    tensors: Mapping[str, Tensor],
    arrays: dict[tuple[str, tuple[int, ...]], SharedBuffer],
) -> list[Tensor]:
    store = None
    if stage["store"] is not None:
        place = stage["store"]
        key = place["buffer"], tuple(place["shape"])
        store = StoreMap(
            arrays.setdefault(key, SharedBuffer(*key)), place["offset"], tuple(place["strides"])
        )
    names = [name for name, _ in stage["axes"]]

    def body(*axes: Axis) -> Any:
        scope: dict[str, Expr] = dict(zip(names, axes, strict=True))
        reduce = stage["reduce"]
        reduced = [reduce_axis(extent, name) for name, extent in (reduce or {"axes": []})["axes"]]
        scope |= {axis.name: axis for axis in reduced}
        values = tuple(_expression(node, scope, tensors) for node in stage["bodies"])
        if reduce is not None:
            return _reduced(reduce["kind"], values, reduced)
        return values if len(values) > 1 else values[0]

    shape = [extent for _, extent in stage["axes"]]
    made = compute(shape, body, stage["name"], store, axis_names=names)
    return list(made) if isinstance(made, tuple) else [made]


def _expression(node: Any, scope: Mapping[str, Expr], tensors: Mapping[str, Tensor]) -> Expr:
    match node:
        case ["axis", name]:
            return scope[name]
        case ["const", value, dtype]:
            return Const(value, dtype)
        case ["load", tensor, *indices]:
            return tensors[tensor][tuple(_expression(i, scope, tensors) for i in indices)]
        case ["cast", dtype, operand]:
            return cast(_expression(operand, scope, tensors), dtype)
        case ["select", *parts]:
            return select(*(_expression(part, scope, tensors) for part in parts))
        case [op, operand]:
            return unary(op, _expression(operand, scope, tensors))
        case [op, lhs, rhs]:
            left, right = (_expression(part, scope, tensors) for part in (lhs, rhs))
            return binary(op, left, right)
    raise AssertionError(node)


def _reduced(kind: str, values: Sequence[Expr], axes: Sequence[Axis]) -> Expr:
    if kind in ("sum", "prod", "max", "min"):
        return getattr(reducers, kind)(values[0], axis=axes)  # type: ignore[no-any-return]
    if kind in ("argmax", "argmin"):
        return getattr(reducers, kind)(*values, axis=axes)  # type: ignore[no-any-return]
    return reducers.reduce(_pair_reducer(kind, [v.dtype for v in values]), values, axes)


def _pair_reducer(kind: str, dtypes: Sequence[str]) -> Reducer:
    a, b = (
        tuple(Var(f"{side}{n}", dtype) for n, dtype in enumerate(dtypes)) for side in ("a", "b")
    )
    first, second = dtypes
    match kind:
        case "sum_sum":
            result = (a[0] + b[0], a[1] + b[1])
            identity: tuple[Any, Any] = (0.0, 0.0)
        case "sum_max":
            result = (a[0] + b[0], maximum(a[1], b[1]))
            identity = (0.0, float("-inf"))
        case _:
            top = maximum(a[0], b[0])
            result = (top, a[1] * exp(a[0] - top) + b[1] * exp(b[0] - top))
            identity = (LOWEST, 0.0)
    constants = (Const(identity[0], first), Const(identity[1], second))
    return Reducer(kind, a, b, result, constants)

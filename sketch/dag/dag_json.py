"""Programs as JSON values: for files that must outlive the code that wrote a program.

The expressions of a stage are one list of nodes, operands before what uses them: what is shared is
written once, and nothing is nested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final, get_args

from sketch.dag.dag import ComputeDAG
from sketch.errors import ExpressionError, quoted
from sketch.lang.dtypes import BOOL, check_dtype, is_float
from sketch.lang.expr import (
    Axis,
    AxisKind,
    Binary,
    Cast,
    Const,
    Expr,
    Load,
    Reduce,
    Reducer,
    Select,
    Unary,
    Var,
)
from sketch.lang.prepared import Prepared
from sketch.lang.tensor import Compute, Operation, Placeholder, SharedBuffer, StoreMap, Tensor

_Json = dict[str, Any]
_PREPARED: Final[dict[str, type[Prepared]]] = {kind.__name__: kind for kind in get_args(Prepared)}
_DAMAGED: Final = (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError)


def dag_to_json(dag: ComputeDAG) -> _Json:
    """All of a program; equal programs of equal names give equal values."""
    inputs = [tensor.op for tensor in dag.inputs]
    numbers = {id(op): n for n, op in enumerate([*inputs, *dag.stages])}
    return {
        "inputs": [_input_json(op) for op in inputs if isinstance(op, Placeholder)],
        "stages": [_StageWriter(op, numbers).json() for op in dag.stages],
        "outputs": [[numbers[id(t.op)], t.output] for t in dag.outputs],
    }


def dag_from_json(data: Any) -> ComputeDAG:
    """The inverse of ``dag_to_json``: a program of the same key.

    Raises:
        ExpressionError: the value is no such program, or one that cannot be.
    """
    try:
        operations: list[Operation] = [_input_of(item) for item in data["inputs"]]
        buffers: dict[tuple[str, tuple[int, ...]], SharedBuffer] = {}
        for item in data["stages"]:
            store = _store_of(item.get("store"), buffers)
            operations.append(_StageReader(item, operations, store).stage())
        return ComputeDAG([Tensor(operations[n], output) for n, output in data["outputs"]])
    except _DAMAGED as error:
        raise ExpressionError(f"{quoted(data)} is no program: {error}") from error


def _input_json(op: Placeholder) -> _Json:
    data: _Json = {
        "name": op.name,
        "shape": list(op.shape),
        "dtype": op.dtype,
        "constant": op.constant,
    }
    if op.prepared is not None:
        data["prepared"] = {"kind": type(op.prepared).__name__, **asdict(op.prepared)}
    return data


def _input_of(data: _Json) -> Placeholder:
    shape, dtype = tuple(data["shape"]), check_dtype(data["dtype"])
    prepared = _prepared_of(data["prepared"]) if "prepared" in data else None
    return Placeholder(data["name"], shape, dtype, bool(data["constant"]), prepared)


def _prepared_of(data: _Json) -> Prepared:
    fields = {name: _tuples(value) for name, value in data.items()}
    kind = _PREPARED[fields.pop("kind")]
    return kind(**fields)


def _tuples(value: Any) -> Any:
    """Lists within lists as tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


class _StageWriter:
    """Writes a stage; ``numbers``: of the operations, by identity."""

    def __init__(self, op: Compute, numbers: dict[int, int]) -> None:
        self._op, self._numbers = op, numbers
        self._nodes: list[list[Any]] = []
        self._places: dict[int, int] = {}

    def json(self) -> _Json:
        """The stage."""
        op, reduce = self._op, self._op.reduce
        data: _Json = {"name": op.name, "axes": [[a.name, a.extent] for a in op.axes]}
        if reduce is None:
            data["bodies"] = self._all(op.bodies)
        else:
            reducer = reduce.reducer
            data["over"] = [[a.name, a.extent] for a in reduce.axes]
            data["bodies"] = self._all(reduce.sources)
            data["reducer"] = [
                reducer.name,
                *map(self._all, (reducer.lhs, reducer.rhs, reducer.result, reducer.identity)),
            ]
        data["nodes"] = self._nodes
        if op.store is not None:
            buffer = op.store.buffer
            data["store"] = [buffer.name, buffer.shape, op.store.offset, op.store.strides]
        return data

    def _all(self, nodes: Sequence[Expr]) -> list[int]:
        return [self._place(node) for node in nodes]

    def _place(self, node: Expr) -> int:
        if id(node) not in self._places:
            written = self._written(node)
            self._places[id(node)] = len(self._nodes)
            self._nodes.append(written)
        return self._places[id(node)]

    def _written(self, node: Expr) -> list[Any]:
        match node:
            case Axis():
                return ["axis", self._op.all_axes.index(node)]
            case Const():
                return ["const", repr(node.value), node.dtype]
            case Var():
                return ["var", node.name, node.dtype]
            case Load():
                tensor = node.tensor
                number = self._numbers[id(tensor.op)]
                return ["load", number, tensor.output, *self._all(node.indices)]
            case Binary():
                return ["binary", node.op, *self._all((node.lhs, node.rhs)), node.dtype]
            case Unary():
                return ["unary", node.op, self._place(node.operand), node.dtype]
            case Select():
                return ["select", *self._all((node.condition, node.then, node.otherwise))]
            case Cast():
                return ["cast", self._place(node.operand), node.dtype]
            case _:
                raise ExpressionError(f"{type(node).__name__} inside a stage", self._op.name)


class _StageReader:
    """Reads a stage; ``operations``: those before it; ``store``: where it writes."""

    def __init__(
        self, data: _Json, operations: Sequence[Operation], store: StoreMap | None
    ) -> None:
        self._data, self._operations, self._store = data, operations, store
        self._axes = _axes(data["axes"], "spatial")
        self._over = _axes(data.get("over", ()), "reduce")
        self._nodes: list[Expr] = []

    def stage(self) -> Compute:
        """The stage."""
        data = self._data
        for node in data["nodes"]:
            self._nodes.append(self._node(*node))
        bodies = self._all(data["bodies"])
        if "reducer" in data:
            name, lhs, rhs, result, identity = data["reducer"]
            reducer = Reducer(
                name, self._vars(lhs), self._vars(rhs), self._all(result), self._constants(identity)
            )
            bodies = (Reduce(reducer, bodies, self._over),)
        return Compute(data["name"], self._axes, bodies, self._store)

    def _all(self, places: Sequence[int]) -> tuple[Expr, ...]:
        return tuple(self._nodes[place] for place in places)

    def _vars(self, places: Sequence[int]) -> tuple[Var, ...]:
        return tuple(node for node in self._all(places) if isinstance(node, Var))

    def _constants(self, places: Sequence[int]) -> tuple[Const, ...]:
        return tuple(node for node in self._all(places) if isinstance(node, Const))

    def _node(self, kind: str, *rest: Any) -> Expr:
        nodes = self._nodes
        match kind:
            case "axis":
                return (*self._axes, *self._over)[rest[0]]
            case "const":
                return Const(_literal(*rest), check_dtype(rest[1]))
            case "var":
                return Var(rest[0], check_dtype(rest[1]))
            case "load":
                tensor = Tensor(self._operations[rest[0]], rest[1])
                return Load(tensor, self._all(rest[2:]))
            case "binary":
                return Binary(rest[0], nodes[rest[1]], nodes[rest[2]], check_dtype(rest[3]))
            case "unary":
                return Unary(rest[0], nodes[rest[1]], check_dtype(rest[2]))
            case "select":
                return Select(*self._all(rest))
            case "cast":
                return Cast(nodes[rest[0]], check_dtype(rest[1]))
            case _:
                raise ValueError(f"a node of kind {kind!r}")


def _axes(data: Sequence[Any], kind: AxisKind) -> tuple[Axis, ...]:
    return tuple(Axis(name, int(extent), kind) for name, extent in data)


def _literal(text: str, dtype: str) -> float | int | bool:
    if dtype == BOOL:
        return text == "True"
    return float(text) if is_float(dtype) else int(text)


def _store_of(
    data: Any, buffers: dict[tuple[str, tuple[int, ...]], SharedBuffer]
) -> StoreMap | None:
    """Where a stage writes; ``buffers``: those of the stages before it, by name and shape."""
    if data is None:
        return None
    name, shape, offset, strides = data
    key = name, tuple(shape)
    buffer = buffers.setdefault(key, SharedBuffer(*key))
    return StoreMap(buffer, offset, tuple(strides))

"""Tensors and the stages that compute them: ``placeholder``, ``compute``, ``reduce_axis``.

A matrix product reads

    A = placeholder((M, K), name="A")
    B = placeholder((K, N), name="B", constant=True)
    k = reduce_axis(K)
    C = compute((M, N), lambda i, j: sum(A[i, k] * B[k, j], axis=k), name="C")
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from sketch.errors import ExpressionError, quoted
from sketch.lang.dtypes import AnyDtype, check_dtype, is_integer
from sketch.lang.expr import Axis, Expr, Load, Reduce, as_expr
from sketch.lang.fresh_names import distinct_names
from sketch.lang.kept import KeepsResults
from sketch.lang.prepared import Prepared
from sketch.lang.rewrite import children, substitute_axes


@dataclass(frozen=True, slots=True, eq=False)
class SharedBuffer:
    """A row-major array that several stages write; ``name``: what callers know it by."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoreMap:
    """Where a stage writes inside a shared buffer.

    Element ``(i0, i1, ...)`` of the stage goes to flat element
    ``offset + sum(strides[d] * i_d)`` of ``buffer``.  The stages of a DAG that write one buffer
    must together cover it exactly once.  No stride is negative: a stage that is written backwards
    is one with reversed indices.
    """

    buffer: SharedBuffer
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Placeholder:
    """An input of the program; ``constant`` marks weights, known before the program runs.

    ``prepared``: how a constant of ``shape`` is made from what the caller gives under its name.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    constant: bool
    prepared: Prepared | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Compute(KeepsResults):
    """A stage: one or more values for every point of its spatial ``axes``.

    ``bodies`` has one expression per output.  A reduction has exactly one body, a ``Reduce``, and
    one output per element of its tuple.
    """

    name: str
    axes: tuple[Axis, ...]
    bodies: tuple[Expr, ...]
    store: StoreMap | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.extent for axis in self.axes)

    @property
    def reduce(self) -> Reduce | None:
        body = self.bodies[0]
        return body if isinstance(body, Reduce) else None

    @property
    def reduce_axes(self) -> tuple[Axis, ...]:
        reduce = self.reduce
        return reduce.axes if reduce is not None else ()

    @property
    def all_axes(self) -> tuple[Axis, ...]:
        """Spatial axes, then reduce axes."""
        return (*self.axes, *self.reduce_axes)

    @property
    def output_dtypes(self) -> tuple[str, ...]:
        reduce = self.reduce
        return tuple(e.dtype for e in (reduce.sources if reduce is not None else self.bodies))


Operation = Placeholder | Compute


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """Output ``output`` of an operation.  ``tensor[i, j]`` is one element, as an expression."""

    op: Operation
    output: int = 0

    @property
    def name(self) -> str:
        many = isinstance(self.op, Compute) and len(self.op.output_dtypes) > 1
        return f"{self.op.name}.v{self.output}" if many else self.op.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.op.shape

    @property
    def dtype(self) -> str:
        op = self.op
        return op.dtype if isinstance(op, Placeholder) else op.output_dtypes[self.output]

    @property
    def given_shape(self) -> tuple[int, ...]:
        """Shape of the array that the caller gives for a placeholder."""
        prepared = self.op.prepared if isinstance(self.op, Placeholder) else None
        return self.shape if prepared is None else prepared.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, indices: Any) -> Expr:
        parts = indices if isinstance(indices, tuple) else (indices,)
        if len(parts) != self.ndim:
            raise ExpressionError(
                f"{self.name} has {self.ndim} dimensions {self.shape}, indexed with {len(parts)}",
                hint="give one index per dimension",
            )
        return Load(self, tuple(self._check_index(d, part) for d, part in enumerate(parts)))

    def _check_index(self, dimension: int, index: Any) -> Expr:
        node = as_expr(index)
        if not is_integer(node.dtype):
            raise ExpressionError(
                f"index {dimension} of {self.name} has dtype {node.dtype}", hint="use integers"
            )
        return node

    def __iter__(self) -> Iterator[Expr]:
        raise ExpressionError(f"cannot iterate over tensor {self.name}", hint="use compute(...)")

    def __repr__(self) -> str:
        return f"Tensor({self.name}, shape={self.shape}, dtype={self.dtype})"


def tensors_of(op: Compute) -> tuple[Tensor, ...]:
    """The results of a stage."""
    return tuple(Tensor(op, index) for index in range(len(op.output_dtypes)))


def check_shape(shape: Sequence[int] | int, where: str) -> tuple[int, ...]:
    """Normalise a shape; raises ExpressionError unless all extents are positive integers."""
    dims = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    for extent in dims:
        if isinstance(extent, bool) or not hasattr(extent, "__index__") or int(extent) < 1:
            raise ExpressionError(f"shape {dims} is not made of positive integers", where)
    return tuple(int(extent) for extent in dims)


def check_name(name: Any, what: str) -> str:
    """A name; raises ExpressionError unless it is a text that can be written to a file."""
    if not isinstance(name, str):
        raise ExpressionError(
            f"{what} cannot be called {name!r} of type {type(name).__name__}", hint="use a str"
        )
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ExpressionError(
            f"{what} cannot be called {name!r}: half of a surrogate pair is no character",
            hint="use characters that UTF-8 can encode",
        ) from error
    return name


def placeholder(
    shape: Sequence[int] | int,
    dtype: AnyDtype = "float32",
    name: str = "data",
    constant: bool = False,
) -> Tensor:
    """An input tensor.

    Args:
        shape: extents; one int is one dimension.
        dtype: of its elements, by name or as NumPy's.
        name: for printing.
        constant: whether these are weights, which may be packed ahead of time.
    """
    dims = check_shape(shape, f"placeholder {name}")
    return Tensor(
        Placeholder(check_name(name, "a placeholder"), dims, check_dtype(dtype), constant)
    )


def reduce_axis(extent: int, name: str = "k") -> Axis:
    """An axis to reduce over, ``0 <= axis < extent``."""
    checked = check_name(name, "a reduce axis")
    return Axis(checked, check_shape(extent, f"reduce axis {name}")[0], "reduce")


def _argument_names(fn: Callable[..., Any], rank: int, where: str) -> list[str]:
    if not callable(fn):
        raise ExpressionError(
            f"{quoted(fn)} is no function", where, "give lambda i, j: ..., one index a dimension"
        )
    parameters = list(inspect.signature(fn).parameters.values())
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return [f"i{d}" for d in range(rank)]
    if len(parameters) != rank:
        raise ExpressionError(
            f"the function takes {len(parameters)} indices, the shape has {rank} dimensions", where
        )
    return [p.name for p in parameters]


def compute(
    shape: Sequence[int] | int,
    fn: Callable[..., Any],
    name: str = "compute",
    store: StoreMap | None = None,
    axis_names: Sequence[str] | None = None,
) -> Any:
    """A stage whose element at ``(i, j, ...)`` is ``fn(i, j, ...)``.

    Returns a Tensor, or a tuple of Tensors when there are several outputs.

    Args:
        shape: extents; one int is one dimension.
        fn: takes one axis a dimension; returns an expression, a tuple of expressions (several
            outputs), or a reduction.
        name: of the stage, for printing.
        store: where elements go in a shared buffer; None: a buffer of its own, row-major.
        axis_names: of the axes; None: as the arguments of ``fn``.  Of two equal names the second is
            numbered.

    Raises:
        ExpressionError: no function, wrong arity, nested reduction, unknown or repeated axes, bad
            store map.
    """
    where = f"stage {name}"
    dims = check_shape(shape, where)
    check_name(name, "a stage")
    labels = _argument_names(fn, len(dims), where) if axis_names is None else axis_names
    for label in labels:
        check_name(label, "an axis")
    axes = tuple(Axis(label, extent, "spatial") for label, extent in zip(labels, dims, strict=True))
    value = fn(*axes)
    bodies = tuple(as_expr(v) for v in value) if isinstance(value, tuple) else (as_expr(value),)
    op = Compute(name, axes, bodies, store)
    _check_bodies(op, where)
    _check_store(op, where)
    outputs = tensors_of(_with_distinct_axes(op))
    return outputs[0] if len(outputs) == 1 else outputs


def _check_bodies(op: Compute, where: str) -> None:
    if op.reduce is not None and len(op.bodies) > 1:
        raise ExpressionError(
            "a stage has several bodies, one of them a reduction", where, "use one tuple reducer"
        )
    known = {id(axis) for axis in op.all_axes}
    pending: list[Expr] = list(op.reduce.sources if op.reduce is not None else op.bodies)
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Reduce):
            raise ExpressionError(
                "a reduction is nested inside an expression", where, "give it a stage of its own"
            )
        if isinstance(node, Axis) and id(node) not in known:
            raise ExpressionError(
                f"axis {node.name!r} belongs to no loop of the stage",
                where,
                "list it in the reduction's axes",
            )
        pending.extend(children(node))
    axes = op.all_axes
    if len(known) < len(axes):
        repeated = next(axis for axis in axes if axes.count(axis) > 1)
        raise ExpressionError(
            f"axis {repeated.name!r} is used twice",
            where,
            "make one axis for each loop: reduce_axis(n)",
        )


def _with_distinct_axes(op: Compute) -> Compute:
    """The stage with a name for each axis that no other of its axes has: steps tell them apart."""
    axes = op.all_axes
    labels = distinct_names([axis.name for axis in axes])
    made = {
        axis: Axis(label, axis.extent, axis.kind)
        for axis, label in zip(axes, labels, strict=True)
        if label != axis.name
    }
    if not made:
        return op
    bodies = tuple(substitute_axes(body, dict(made)) for body in op.bodies)
    if isinstance(bodies[0], Reduce):
        reduced = tuple(made.get(axis, axis) for axis in op.reduce_axes)
        bodies = (replace(bodies[0], axes=reduced),)
    return replace(op, axes=tuple(made.get(axis, axis) for axis in op.axes), bodies=bodies)


def _check_store(op: Compute, where: str) -> None:
    if op.store is None:
        return
    if len(op.store.strides) != len(op.axes):
        raise ExpressionError(
            f"the store map has {len(op.store.strides)} strides for {len(op.axes)} axes", where
        )
    if min(op.store.strides, default=0) < 0:
        raise ExpressionError(
            f"the store map has negative strides {op.store.strides}", where,
            "reverse the indices in the body",
        )  # fmt: skip
    size = prod(op.store.buffer.shape)
    ends = [s * (a.extent - 1) for s, a in zip(op.store.strides, op.axes, strict=True)]
    low, high = op.store.offset, op.store.offset + sum(ends)
    if low < 0 or high >= size:
        raise ExpressionError(
            f"the store map reaches elements {low}..{high} of a buffer of {size}", where
        )

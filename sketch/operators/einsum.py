"""Products of tensors, summed over labelled axes (Einstein's convention)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul

from sketch.errors import ExpressionError
from sketch.lang import reducers
from sketch.lang.dtypes import AnyDtype
from sketch.lang.expr import Axis, Const, Expr
from sketch.lang.tensor import Tensor, reduce_axis
from sketch.operators.factors import factor
from sketch.operators.layout import stage
from sketch.operators.reduction import narrowed


def label_extents(
    shapes: Sequence[tuple[int, ...]], labels: Sequence[str], where: str
) -> dict[str, int]:
    """The extent of each label, in order of appearance; a dimension of extent 1 is repeated.

    Raises ExpressionError where ranks or extents do not fit.
    """
    extents: dict[str, int] = {}
    for shape, names in zip(shapes, labels, strict=True):
        if len(shape) != len(names):
            raise ExpressionError(f"shape {shape} has not the dimensions {names!r}", where)
        for extent, label in zip(shape, names, strict=True):
            known = extents.get(label, 1)
            if 1 not in (known, extent) and known != extent:
                raise ExpressionError(
                    f"label {label!r} stands for extents {known} and {extent}", where
                )
            extents[label] = max(known, extent)
    return extents


def einsum(
    tensors: Sequence[Tensor],
    labels: Sequence[str],
    output: str,
    name: str = "einsum",
    dtype: AnyDtype | None = None,
) -> Tensor:
    """The product of ``tensors``, summed over the labels that ``output`` does not have.

    Args:
        tensors: the factors, all of one dtype.
        labels: a letter for each dimension of each tensor; a letter that occurs twice in one tensor
            stands for its diagonal.
        output: distinct labels of the result's dimensions.
        name: name of the stage.
        dtype: of products and sums; None: that of the factors.

    Raises:
        ExpressionError: labels do not fit the shapes, or the output has an unknown label.
    """
    where = f"stage {name}"
    extents = label_extents([t.shape for t in tensors], labels, where)
    if len(set(output)) < len(output) or not set(output) <= set(extents):
        raise ExpressionError(f"output labels {output!r} must be distinct and occur before", where)
    over = {
        label: reduce_axis(extent, f"r{label}")
        for label, extent in extents.items()
        if label not in output
    }

    def element(axes: tuple[Axis, ...]) -> Expr:
        place: dict[str, Axis] = {**over, **dict(zip(output, axes, strict=True))}
        factors = [
            factor(_element(tensor, [place[label] for label in names]), dtype)
            for tensor, names in zip(tensors, labels, strict=True)
        ]
        product = reduce(mul, factors)
        return reducers.sum(product, tuple(over.values())) if over else product

    shape = [extents[label] for label in output]
    if dtype is not None:
        return stage(shape, element, name)
    return narrowed(name, tensors[0].dtype, lambda label: stage(shape, element, label))


def _element(tensor: Tensor, axes: Sequence[Axis]) -> Expr:
    zero = Const(0, "int64")
    pairs = zip(axes, tensor.shape, strict=True)
    return tensor[tuple(zero if n == 1 and axis.extent > 1 else axis for axis, n in pairs)]

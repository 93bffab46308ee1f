"""Which tensor units of a GPU compute a contraction, and along which axes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Final

from sketch.analysis.access import affine_index, stage_loads
from sketch.analysis.contraction import Contraction, Multiplicand, contraction_of
from sketch.lang.dtypes import size_of
from sketch.lang.expr import Axis, Binary
from sketch.lang.tensor import Compute, Placeholder, Tensor
from sketch.rules.patterns import longest
from sketch.rules.unit_fit import computes
from sketch.schedule.program import Program
from sketch.target.units import TensorUnit

# Results for each one that is wanted, up to which units compute tiles that are larger than an axis.
_MOST_PADDING: Final = 4
# Bytes that a thread copies at a time, and of elements that a warp turns while it loads them.
_PIECE_BYTES: Final = 16
_TURNED: Final = (2,)


@dataclass(frozen=True, slots=True)
class WarpFit:
    """A unit for a stage.

    Attributes:
        unit: the tensor unit.
        rows: the position of the spatial axis that its m are along.
        columns: the same of its n.
        terms: the reduce axis of which it adds several products.
        dims: of each operand, the dimension that these walk.
    """

    unit: TensorUnit
    rows: int
    columns: int
    terms: Axis
    dims: tuple[tuple[Tensor, int], ...]


def fits_on_gpu(
    program: Program, op: Compute, units: Iterable[TensorUnit], processors: int
) -> tuple[WarpFit, ...]:
    """The unit of one warp that ``warp_fit`` chooses; of those of four warps the one that takes the
    least time on one processor, and one that is at most half as wide.

    Args:
        program: that the stage is in.
        op: the stage.
        units: to choose from.
        processors: of the GPU; the narrower unit is to have a tile for each of them.
    """
    known = tuple(units)
    warp = warp_fit(op, (unit for unit in known if not unit.reads_shared))
    groups = _fits(op, (unit for unit in known if unit.reads_shared))
    sides = {fit.rows: fit for fit in groups}  # their rows are along either operand
    rows = {n for n, fit in sides.items() if _reads_whole_rows(program, op, fit)}
    groups = [fit for fit in groups if fit.rows in rows and not _is_mostly_padding(fit, op)]
    wide = _fastest(groups, op)
    narrow = [fit for fit in groups if wide is not None and 2 * fit.unit.n <= wide.unit.n]
    enough = [fit for fit in narrow if _tiles(fit, op) >= processors]
    found = (warp, wide, _fastest(enough or narrow, op))
    return tuple(fit for fit in found if fit is not None)


def _fastest(groups: Iterable[WarpFit], op: Compute) -> WarpFit | None:
    """Of several alike the widest."""
    return min(groups, key=lambda fit: (_group_cycles(fit, op), -fit.unit.n), default=None)


def _tiles(fit: WarpFit, op: Compute) -> int:
    """Blocks of one unit each that there could be."""
    units = -(-op.axes[fit.rows].extent // fit.unit.m)
    units *= -(-op.axes[fit.columns].extent // fit.unit.n)
    others = (axis for n, axis in enumerate(op.axes) if n not in (fit.rows, fit.columns))
    return units * prod(axis.extent for axis in others)


def _group_cycles(fit: WarpFit, op: Compute) -> int:
    """About the time of all products on units of four warps: of each that of its columns, or that
    of reading the rows of both operands, of which a processor reads two meanwhile.
    """
    rows, columns = op.axes[fit.rows].extent, op.axes[fit.columns].extent
    units = -(-rows // fit.unit.m) * -(-columns // fit.unit.n)
    return units * max(2 * fit.unit.n, fit.unit.m + fit.unit.n)


def warp_fit(op: Compute, units: Iterable[TensorUnit]) -> WarpFit | None:
    """The unit that computes a stage in the fewest steps, of several that with the least to spare,
    its rows along the first operand if that is no matter; None where none does, or few of its
    results would be wanted.
    """
    # of several alike the first one, whose rows are along the first operand
    best = max(
        _fits(op, units),
        key=lambda fit: (-_steps(fit), _share_wanted(fit, op), -fit.unit.k),
        default=None,
    )
    return None if best is None or _is_mostly_padding(best, op) else best


def _fits(op: Compute, units: Iterable[TensorUnit]) -> list[WarpFit]:
    """All units that compute a stage, each with its rows along either operand, the first first."""
    found = contraction_of(op)
    reduce = op.reduce
    if found is None or reduce is None or not isinstance(reduce.sources[0], Binary):
        return []
    known = tuple(units)
    return [
        fit
        for turned in (False, True)
        for unit in known
        if (fit := _fit(op, found, unit, turned)) is not None
    ]


def _steps(fit: WarpFit) -> int:
    """Products one after another until all terms are added."""
    return -(-fit.terms.extent // fit.unit.k)


def _fit(op: Compute, found: Contraction, unit: TensorUnit, turned: bool) -> WarpFit | None:
    """How a unit computes a stage; ``turned``: its rows are along the second operand."""
    sides = [found.lhs, found.rhs]
    across = [found.rows, found.columns]
    if turned:
        sides, across = sides[::-1], across[::-1]
    if unit.fragments is None or not computes(unit, sides[0].kind, sides[1].kind, found.dtype):
        return None
    if not all(across) or not found.terms or len(op.reduce_axes) != len(found.terms):
        return None
    rows, columns, terms = longest(across[0]), longest(across[1]), longest(found.terms)
    dims = [(side.load.tensor, _dim(side, terms)) for side in sides]
    known = tuple((tensor, dim) for tensor, dim in dims if dim is not None)
    if len(known) < len(dims):
        return None
    return WarpFit(unit, op.axes.index(rows), op.axes.index(columns), terms, known)


def _dim(side: Multiplicand, axis: Axis) -> int | None:
    """The one dimension of an operand that an axis walks by ones."""
    found = [d for d, (terms, _) in enumerate(side.forms) if axis in terms]
    return found[0] if len(found) == 1 and side.forms[found[0]][0][axis] == 1 else None


def _reads_whole_rows(program: Program, op: Compute, fit: WarpFit) -> bool:
    """Whether operands can lie in shared memory as rows of terms, row after row: each is copied in
    pieces of terms, and one axis walks its rows.  Of terms in parts, a block has one part.
    """
    found = contraction_of(op)
    assert found is not None
    packed = packed_operands(program, op, fit)
    for side in (found.lhs, found.rhs):
        tensor, dim = side.load.tensor, dict(fit.dims)[side.load.tensor]
        (walking,) = (op.axes[n] for n in (fit.rows, fit.columns) if op.axes[n] in side.axes)
        last = tensor in packed or dim == tensor.ndim - 1
        others = side.forms[dim][0].keys() - {fit.terms}
        if not last or not _walks_alone(side, walking) or others & set(op.reduce_axes):
            return False
    return True


def _walks_alone(side: Multiplicand, axis: Axis) -> bool:
    """Whether rows along an axis are rows of the tensor one after another, from one that is the
    same for a whole tile: of a window, one of the tile's tap.
    """
    dim = _dim(side, axis)
    return dim is not None and all(
        other is axis or other.kind == "reduce" for other in side.forms[dim][0]
    )


def packed_operands(program: Program, op: Compute, fit: WarpFit) -> dict[Tensor, int]:
    """How many terms of a constant are laid out together: a piece of 16 bytes of those that a load
    of whole matrices cannot turn, where they do not lie so already.
    """
    found = {}
    turned = () if fit.unit.reads_shared else _TURNED
    for tensor, dim in fit.dims:
        size = size_of(tensor.dtype)
        constant = isinstance(tensor.op, Placeholder) and tensor.op.constant
        alone = len(program.consumers(tensor.op)) == 1
        if constant and alone and size not in turned and dim != tensor.ndim - 1:
            piece = _PIECE_BYTES // size
            if _starts_pieces(op, tensor, dim, fit.terms, piece):
                found[tensor] = piece
    return found


def _starts_pieces(op: Compute, tensor: Tensor, dim: int, terms: Axis, piece: int) -> bool:
    """Whether all else than the terms moves along a dimension by whole pieces."""
    for load in stage_loads(op):
        if load.tensor.op is tensor.op:
            form = affine_index(load.indices[dim], op.all_axes)
            moved = () if form is None else (c for axis, c in form[0].items() if axis is not terms)
            if form is None or form[1] or any(step % piece for step in moved):
                return False
    return True


def _is_mostly_padding(fit: WarpFit, op: Compute) -> bool:
    """Whether few of the results that units compute are wanted."""
    return _share_wanted(fit, op) * _MOST_PADDING < 1


def _share_wanted(fit: WarpFit, op: Compute) -> float:
    """Of the products that units compute, those that the stage has."""
    share = 1.0
    sizes = (op.axes[fit.rows], fit.unit.m), (op.axes[fit.columns], fit.unit.n)
    for axis, size in (*sizes, (fit.terms, fit.unit.k)):
        share *= axis.extent / (-(-axis.extent // size) * size)
    return share

"""Multi-level tiling of a contraction for the tensor units of a GPU, which warps compute on.

    block S0, warp S1, units S2 of the consumer             (of a batch: S0)
      thread: the lanes of a unit
        acc = 0                                             (registers, a part in each lane)
        R0:  A.cache, B.cache <- tiles of A and B           (shared memory, all threads together)
          R1:  acc += A.cache * B.cache                     (R2, S2 and the lanes: one unit each)
        consumer of the part of acc in each lane

Beside what tiling by threads offers, never in its place.  A lane computes the results that a unit
leaves in it, so what is made of them is code of one thread as elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

from sketch.analysis.access import affine_index, stage_loads
from sketch.analysis.contraction import Contraction, Multiplicand, contraction_of
from sketch.lang.dtypes import size_of
from sketch.lang.expr import Axis, Binary
from sketch.lang.tensor import Compute, Placeholder, Tensor
from sketch.nest.loopnest import LoopKind
from sketch.rules.gpu_order import block_order
from sketch.rules.gpu_tiling import loops_over_tiles, read_from_tiles
from sketch.rules.patterns import longest
from sketch.rules.rule import State, Verdict
from sketch.rules.tiling import tiled_producer
from sketch.rules.unit_fit import computes
from sketch.schedule.loop import LoopId
from sketch.schedule.program import Program, StagePlan
from sketch.schedule.steps import Annotate, ComputeAt, Factor, Reorder, Split, Step, Tensorize
from sketch.target.fragments import FragmentPart, UnitAxis
from sketch.target.target import Target
from sketch.target.units import TensorUnit, units_of

# Levels of a tiled axis of the host: blocks, warps, units of a warp, then the parts of a unit.
_WARPS: Final = 1
_UNITS: Final = 2
_PARTS: Final = 3
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


@dataclass(frozen=True, slots=True)
class TileOnWarps:
    """Tile the contraction that ``stage`` reads element by element for the units of a GPU.

    Attributes:
        units: to choose from; None: those of the target.
    """

    units: tuple[TensorUnit, ...] | None = None

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Spatial stages that read a pending contraction that a unit computes."""
        found = tiled_producer(state, stage)
        known = units_of(state.target) if self.units is None else self.units
        fits = found is not None and warp_fit(found.op, known) is not None
        return Verdict.APPLY if fits else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state, on the unit that takes the fewest steps."""
        inner = tiled_producer(state, stage)
        assert inner is not None
        fit = warp_fit(inner.op, units_of(state.target) if self.units is None else self.units)
        assert fit is not None
        steps = _tile_host(stage, inner, fit, state.target)
        state = state.then(*steps, *_tile_inner(inner, fit))
        packed = _packed(state.program, inner, fit)
        return (read_from_tiles(state, stage, inner, dict(fit.dims), packed),)


def warp_fit(op: Compute, units: Iterable[TensorUnit]) -> WarpFit | None:
    """The unit that computes a stage in the fewest steps, of several that with the least to spare,
    its rows along the first operand if that is no matter; None where none does, or few of its
    results would be wanted.
    """
    found = contraction_of(op)
    reduce = op.reduce
    if found is None or reduce is None or not isinstance(reduce.sources[0], Binary):
        return None
    fits = [
        (-_steps(fit), _share_wanted(fit, op), -fit.unit.k, not turned, fit)
        for unit in units
        for turned in (False, True)
        if (fit := _fit(op, found, unit, turned)) is not None
    ]
    best = max(fits, key=lambda each: each[:4], default=None)
    return None if best is None or best[1] * _MOST_PADDING < 1 else best[-1]


def _steps(fit: WarpFit) -> int:
    """Products one after another until all terms are added."""
    return -(-fit.terms.extent // fit.unit.k)


def _fit(op: Compute, found: Contraction, unit: TensorUnit, turned: bool) -> WarpFit | None:
    """How a unit computes a stage; ``turned``: its rows are along the second operand."""
    sides = [found.lhs, found.rhs]
    across = [found.rows, found.columns]
    if turned:
        sides, across = sides[::-1], across[::-1]
    if unit.fragments is None or not computes(
        unit, sides[0].load.dtype, sides[1].load.dtype, found.dtype
    ):
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


def _packed(program: Program, inner: StagePlan, fit: WarpFit) -> dict[Tensor, int]:
    """How many terms of a constant are laid out together: a piece of 16 bytes of those that a load
    of whole matrices cannot turn, where they do not lie so already.
    """
    found = {}
    for tensor, dim in fit.dims:
        size = size_of(tensor.dtype)
        constant = isinstance(tensor.op, Placeholder) and tensor.op.constant
        alone = len(program.consumers(tensor.op)) == 1
        if constant and alone and size not in _TURNED and dim != tensor.ndim - 1:
            piece = _PIECE_BYTES // size
            if _starts_pieces(inner.op, tensor, dim, fit.terms, piece):
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


def _share_wanted(fit: WarpFit, op: Compute) -> float:
    """Of the products that units compute, those that the stage has."""
    share = 1.0
    sizes = (op.axes[fit.rows], fit.unit.m), (op.axes[fit.columns], fit.unit.n)
    for axis, size in (*sizes, (fit.terms, fit.unit.k)):
        share *= axis.extent / (-(-axis.extent // size) * size)
    return share


def _tile_host(host: StagePlan, inner: StagePlan, fit: WarpFit, target: Target) -> list[Step]:
    name, axes = host.id, host.op.axes
    assert fit.unit.fragments is not None
    sides: tuple[tuple[Axis, UnitAxis], ...] = ((axes[fit.rows], "m"), (axes[fit.columns], "n"))
    lanes: list[tuple[int, LoopId]] = []
    copies: list[LoopId] = []
    last: list[LoopId] = []
    steps: list[Step] = []
    for axis, side in sides:
        parts = fit.unit.fragments[2].along(side)
        sizes = tuple(part.extent for part in parts)
        factors: tuple[Factor, ...] = (host.decision(axis, _WARPS), host.decision(axis, _UNITS))
        steps.append(Split(name, host.axis(axis), (*factors, *sizes)))
        for level, part in enumerate(parts, start=_PARTS):
            loop = host.loop(axis, level)
            if part.home == "lane":
                lanes.append((part.step, loop))
            else:
                (copies if _is_outside_lanes(part, parts) else last).append(loop)
    tiled = [axis for axis, _ in sides]
    warps = [host.loop(axis, _WARPS) for axis in tiled]
    units = [*(host.loop(axis, _UNITS) for axis in tiled), *copies]
    threads = [loop for _, loop in sorted(lanes, reverse=True)]
    blocks = [host.loop(axis) for axis in axes]
    steps.append(Reorder(name, (*blocks, *warps, *units, *threads, *last)))
    kinds = (
        (blocks, LoopKind.BLOCK), (warps, LoopKind.THREAD), (units, LoopKind.VTHREAD),
        (threads, LoopKind.THREAD), (last, LoopKind.UNROLLED),
    )  # fmt: skip
    steps += [Annotate(name, loop, kind.value) for loops, kind in kinds for loop in loops]
    steps += block_order(host, inner, sorted(tiled, key=axes.index), target)
    return [*steps, ComputeAt(inner.id, name, threads[-1])]


def _is_outside_lanes(part: FragmentPart, parts: Iterable[FragmentPart]) -> bool:
    """Whether lanes are between the elements of a part."""
    return any(other.home == "lane" and other.stride < part.stride for other in parts)


def _tile_inner(inner: StagePlan, fit: WarpFit) -> list[Step]:
    """Every reduce axis in tiles; innermost the terms that a unit adds."""
    name, axes = inner.id, inner.op.reduce_axes
    others = [axis for axis in axes if axis is not fit.terms and axis.extent > 1]
    steps: list[Step] = [
        Split(name, inner.axis(axis), (inner.decision(axis, 1),)) for axis in others
    ]
    steps.append(Split(name, inner.axis(fit.terms), (inner.decision(fit.terms, 1), fit.unit.k)))
    serial = [*(inner.loop(axis, 1) for axis in others), inner.loop(fit.terms, 1)]
    unit, results = inner.loop(fit.terms, 2), [inner.loop(axis) for axis in inner.op.axes]
    steps.append(Reorder(name, (*loops_over_tiles(inner), *serial, unit, *results)))
    steps += [Annotate(name, loop, LoopKind.UNROLLED.value) for loop in results]
    return [*steps, Tensorize(name, (unit,))]

"""The loop nest: what a sketch and its decisions are lowered to.

Every number that depends on a decision is a ``Num``: a Python int (one candidate, for code) or an
int64 array ``[P]`` (a whole population, for features and feasibility).  The *structure* of a nest
never depends on a decision.

A loop variable is **scaled**: in trip ``t`` it has the value ``t * stride``, so an axis that was
split into levels is simply the *sum* of its loop variables, and index coefficients come from the
program (a convolution's stride), never from tile sizes.

    for i_0 in 0..M step 48:            Loop(i_0, extent=ceil(M/48), stride=48)
      for i_1 in 0..48 step 6:          Loop(i_1, extent=8, stride=6)
        for i_2 in 0..6:                Loop(i_2, extent=6, stride=1)   # i == i_0 + i_1 + i_2

Where a tile does not divide the extent, statements carry predicates (``0 <= i_0+i_1+i_2 < M``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sketch.lang.affine import add_terms, scale_terms
from sketch.lang.expr import Axis, Expr, Reducer, Var
from sketch.lang.mask import Mask
from sketch.lang.tensor import Compute

Num = int | NDArray[np.int64]


class LoopKind(Enum):
    """How a loop is executed."""

    SERIAL = "serial"
    PARALLEL = "parallel"  # distributed over threads; only at the top of a root nest
    VECTORIZED = "vectorized"  # one SIMD operation; innermost, stride 1
    UNROLLED = "unrolled"  # straight-line copies
    TENSOR = "tensor"  # of a tensor unit, around its lanes: one instruction, or unrolled
    BLOCK = "block"  # GPU grid
    VTHREAD = "vthread"  # GPU virtual thread: interleaved copies in one thread
    THREAD = "thread"  # GPU thread


class Scope(Enum):
    """Where a buffer lives."""

    INPUT = "input"
    CONSTANT = "constant"
    OUTPUT = "output"
    WORKSPACE = "workspace"  # shared by all threads, allocated by the caller
    LOCAL = "local"  # private to a thread, allocated inside a loop
    SHARED = "shared"  # GPU shared memory
    TILE = "tile"  # registers of a tensor unit, a block of results in each


@dataclass(frozen=True, slots=True, eq=False)
class LoopVar(Var):
    """A loop variable: an int64 scalar, unique in its nest.

    ``axis``: what it walks, where lowering made it; loops of one axis of one stage share it.
    ``unit``: what it counts, in coordinates of the axis: more than one around tiles of results.
    """

    name: str
    dtype: str = "int64"
    axis: Axis | None = None
    unit: int = 1


@dataclass(frozen=True, slots=True)
class Affine:
    """``const + sum(coefficient * variable)``; variables in order of first appearance."""

    terms: tuple[tuple[LoopVar, int], ...]
    const: int = 0

    def __add__(self, other: Affine) -> Affine:
        return Affine(add_terms(self.terms, other.terms), self.const + other.const)

    def scale(self, factor: int) -> Affine:
        """This form times an integer."""
        return Affine(scale_terms(self.terms, factor), self.const * factor)

    def coefficient(self, var: LoopVar) -> int:
        """The coefficient of ``var`` (0 when absent)."""
        return next((c for v, c in self.terms if v is var), 0)


@dataclass(frozen=True, slots=True, eq=False)
class Quasi:
    """An index that is not affine: an integer expression over loop variables (and loads), with an
    interval bound ``low <= value <= high`` (inexact).
    """

    expr: Expr
    low: int
    high: int


Index = Affine | Quasi


@dataclass(frozen=True, slots=True, eq=False)
class Swizzle:
    """Piece n of row r lies where piece ``n ^ (r % pieces)`` would.

    Attributes:
        row: elements of a row: a multiple of ``piece * pieces``.
        piece: elements of a piece.
        pieces: a power of two; 1: rows are as they are.
    """

    row: Num
    piece: int
    pieces: Num


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A block of memory.  Element ``(x0, x1, ...)`` lies at ``sum(strides[d] * x_d)``.

    ``steps[d]`` is the granularity of dimension d: only multiples of it are ever indexed (the block
    index of a packed tensor, kept in units of elements).
    ``size`` is the number of elements in memory (for a packed buffer less than the product of
    ``shape``).  ``ahead``: with every vector that is read, the one so many elements further on is
    fetched into L2 (0: none).  ``loose``: it starts at some element of a larger array, so that no
    access may count on an aligned start.  ``tiles``: so many of its size are in use at a time, each
    of which is filled while others are read.  ``swizzle``: how its rows are ordered in memory.
    """

    name: str
    dtype: str
    shape: tuple[Num, ...]
    strides: tuple[Num, ...]
    steps: tuple[Num, ...]
    scope: Scope
    size: Num  # elements to allocate
    ahead: Num = 0
    loose: bool = False
    tiles: Num = 1
    swizzle: Swizzle | None = None

    @property
    def swizzled(self) -> bool:
        """Whether elements lie elsewhere than the strides say; of an int nest."""
        return self.swizzle is not None and int(self.swizzle.pieces) > 1

    @property
    def period(self) -> int:
        """Elements from which on the same order comes again: 1 unless rows are swizzled."""
        if self.swizzle is None or not self.swizzled:
            return 1
        return int(self.swizzle.row) * int(self.swizzle.pieces)


@dataclass(frozen=True, slots=True, eq=False)
class BufferLoad(Expr):
    """One element of a buffer, inside a nest."""

    buffer: Buffer
    indices: tuple[Index, ...]

    @property
    def dtype(self) -> str:
        return self.buffer.dtype


@dataclass(frozen=True, slots=True, eq=False)
class AffineValue(Expr):
    """An affine index used as a value (int64)."""

    index: Affine

    @property
    def dtype(self) -> str:
        return "int64"


@dataclass(frozen=True, slots=True)
class Predicate:
    """``low <= index < high``; a statement whose predicates do not all hold is skipped.

    A side that does not bind is ``-UNBOUNDED`` or ``UNBOUNDED``.
    """

    index: Affine
    low: int
    high: int

    @property
    def never(self) -> bool:
        """Whether no index fulfils it: bounds of a program that contradict each other."""
        return self.low >= self.high


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """A mask at places of a statement: where it does not hold, the statement may be left out.

    ``own``: its terms are identities there.  If not, nothing reads there what it stores, unless a
    statement does that might be left out itself.
    """

    mask: Mask
    places: tuple[Affine, ...]
    own: bool

    @property
    def index(self) -> Affine:
        """The sum that is below the bound of the mask where it holds."""
        total = Affine(())
        for coefficient, place in zip(self.mask.coefficients, self.places, strict=True):
            total = total + place.scale(coefficient)
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """``targets[i][indices] = values[i]``, or the reducer's combine with what is there.

    With a ``reducer``, ``values`` are the new terms.  All targets share ``indices``.
    ``stage``: what it computes, or a part of what it does; None where a nest is written by hand.
    ``needs``: each allows to leave it out; nothing has to.
    """

    targets: tuple[Buffer, ...]
    indices: tuple[Index, ...]
    values: tuple[Expr, ...]
    reducer: Reducer | None = None
    predicates: tuple[Predicate, ...] = ()
    stage: Compute | None = field(default=None, repr=False)
    needs: tuple[Need, ...] = ()

    @property
    def stage_name(self) -> str:
        """For messages."""
        return "" if self.stage is None else self.stage.name


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """Lines that will be written, fetched by the trips of loops, the turns, a part by each.

    Attributes:
        buffer: that they are of.
        start: flat element offset of the first one, over variables of loops around the turns.
        trips: extents of the loops that will write them, outermost first, and the elements that a
            trip moves by.
        lines: elements from the start of a trip to each of its lines.
        turns: variables, extents and strides of the loops that fetch them, outermost first.
    """

    buffer: Buffer
    start: Affine
    trips: tuple[tuple[int, int], ...]
    lines: tuple[int, ...]
    turns: tuple[tuple[LoopVar, int, int], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """``for var in 0, stride, 2*stride, ... (extent trips)``.

    ``clip`` restricts the trips to those for which its predicates hold; they are over this loop's
    variable and variables of loops around it.  Lowering clips serial tile loops at the end of their
    axis (``i_0 + i_1 < M``: tiles that start beyond it are skipped); passes of codegen clip more.
    ``together``: of blocks, so many trips start before loops of blocks inside this one go on.
    ``fetch``: with every vector that is read of these buffers inside the loop, the one so many
    elements further on is fetched into the first cache; ``claim``: what each trip fetches of an
    output; both are made by passes of codegen.
    """

    var: LoopVar
    extent: Num
    stride: Num
    kind: LoopKind
    axis_kind: Literal["spatial", "reduce"]
    body: tuple[Node, ...] = field(repr=False)
    clip: tuple[Predicate, ...] = ()
    together: Num = 1
    fetch: tuple[tuple[Buffer, int], ...] = ()
    claim: Claim | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Allocate:
    """A private buffer that lives during ``body``."""

    buffer: Buffer
    body: tuple[Node, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """The part of a branch for ``low <= index <= high``."""

    low: int
    high: int
    body: tuple[Node, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """Copies of code specialised to ranges of a sum of the variables of loops around it; made by
    passes of codegen.
    """

    index: Affine
    cases: tuple[Case, ...]


Node = Store | Loop | Allocate | Branch


@dataclass(frozen=True, slots=True, eq=False)
class LoopNest:
    """A lowered program.

    ``arguments``: inputs and constants in the DAG's placeholder order, then outputs.
    ``workspaces``: buffers that pass values between root nests.
    ``roots``: executed one after another, each complete before the next starts.
    ``rules``: names of the user's rules that scheduled it, for messages.
    ``short_sums``: long sums of products lose fewer digits, for some more time.
    """

    name: str
    arguments: tuple[Buffer, ...]
    workspaces: tuple[Buffer, ...]
    roots: tuple[Node, ...]
    rules: tuple[str, ...] = ()
    short_sums: bool = False


def row_major(shape: tuple[Num, ...]) -> tuple[Num, ...]:
    """Strides (in elements) of a dense row-major buffer."""
    strides: list[Num] = []
    step: Num = 1
    for extent in reversed(shape):
        strides.append(step)
        step = step * extent
    return tuple(reversed(strides))

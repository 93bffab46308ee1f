"""Steps: the structural half of a schedule.  A sketch is a DAG plus a tuple of steps.

Stages, axes and loops are values (``StageId``, a position, ``LoopId``), never names:
``Split(stage.id, 2, (a, b))`` makes three loops ``LoopId(2, 0)`` to ``LoopId(2, 2)`` of the axis
at 2, with ``b`` trips of the innermost and ``a`` of the middle one; ``StagePlan`` finds them.  A
factor is an int or a decision.  Each step kind carries a version, which records keep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from sketch.schedule.decision import DecisionId
from sketch.schedule.loop import AxisIndex, LoopId
from sketch.schedule.stage import OperationId, StageId, TensorId

Factor = int | DecisionId
TILE_COUNTS: Final = (1, 2, 3, 4)
"""How many tiles of a stage shared memory may hold."""
TILE_LAYOUTS: Final = (0, 1, 2, 3, 4)
TURNED_PIECES: Final = 6
"""A layout that is never a decision: only some instructions read it."""
"""How a tile may lie in shared memory, see ``SharedTiles``."""
BLOCK_ROWS: Final = (1, 2, 4, 8, 16)
"""How many rows of blocks may start together, see ``BlockOrder``."""


@dataclass(frozen=True, slots=True)
class Inline:
    """Compute ``stage`` where it is read; its own loops disappear."""

    kind: ClassVar[str] = "inline"
    version: ClassVar[int] = 1
    stage: StageId


@dataclass(frozen=True, slots=True)
class CacheWrite:
    """Split ``stage`` in two: ``stage.local`` computes, ``stage`` copies the result out.

    before:  C(i, j) += A[i, k]*B[k, j]
    after:   C.local(i, j) += A[i, k]*B[k, j];  C(i, j) = C.local[i, j]
    """

    kind: ClassVar[str] = "cache_write"
    version: ClassVar[int] = 1
    stage: StageId


@dataclass(frozen=True, slots=True)
class CacheRead:
    """Copy ``tensor`` into a stage of its own, called ``cache_id`` beforehand, and let ``consumer``
    read the copy.

    ``scope``: "workspace", or "shared" for memory that a GPU block's threads fill together.
    """

    kind: ClassVar[str] = "cache_read"
    version: ClassVar[int] = 1
    tensor: TensorId
    consumer: StageId
    scope: str = "workspace"


@dataclass(frozen=True, slots=True)
class Rfactor:
    """Compute ``parts`` partial reductions of ``stage`` over parts of ``axis``, then combine.

    before:  s(i) += A[i, k]
    after:   s.rf(i, p) += A[i, p*c + k];  s(i) += s.rf[i, p]

    With ``interleave`` part ``p`` has every ``parts``-th element, ``A[i, k*parts + p]``.
    """

    kind: ClassVar[str] = "rfactor"
    version: ClassVar[int] = 1
    stage: StageId
    axis: AxisIndex
    parts: int
    interleave: bool


@dataclass(frozen=True, slots=True)
class SplitReduce:
    """``Rfactor`` by chunks for the blocks of a GPU: the parts are the outermost axis, so that each
    one is laid out as the result is.

    before:  s(i) += A[i, k]
    after:   s.rf(p, i) += A[i, p*c + k];  s(i) += s.rf[p, i]
    """

    kind: ClassVar[str] = "split_reduce"
    version: ClassVar[int] = 1
    stage: StageId
    axis: AxisIndex
    parts: int


@dataclass(frozen=True, slots=True)
class Split:
    """Split ``axis`` of ``stage`` into ``len(factors) + 1`` nested loops, outermost first."""

    kind: ClassVar[str] = "split"
    version: ClassVar[int] = 1
    stage: StageId
    axis: AxisIndex
    factors: tuple[Factor, ...]


@dataclass(frozen=True, slots=True)
class Reorder:
    """The order of all loops of ``stage``, outermost first."""

    kind: ClassVar[str] = "reorder"
    version: ClassVar[int] = 1
    stage: StageId
    order: tuple[LoopId, ...]


@dataclass(frozen=True, slots=True)
class ComputeAt:
    """Compute what ``target`` needs of ``stage`` inside the loop ``loop`` of ``target``."""

    kind: ClassVar[str] = "compute_at"
    version: ClassVar[int] = 1
    stage: StageId
    target: StageId
    loop: LoopId


@dataclass(frozen=True, slots=True)
class Annotate:
    """How the loop ``loop`` of ``stage`` is executed.

    ``execution``: "parallel", "vectorized" or "unrolled"; "block", "vthread" or "thread" on a GPU.
    """

    kind: ClassVar[str] = "annotate"
    version: ClassVar[int] = 1
    stage: StageId
    loop: LoopId
    execution: str


@dataclass(frozen=True, slots=True)
class Pack:
    """Lay ``tensor`` out in panels along dimension ``dim``.

    The panel is as wide as the loops ``loops`` of ``reader`` (levels of the axis that indexes
    ``dim``); memory order becomes [panel, other dimensions, within the panel].  A constant is laid
    out ahead of time, padded with zeros; the stage of a CacheRead writes its buffer so, with
    ``writer_loops`` walking one panel.  ``prefetch`` (or a decision): how far ahead of what is
    read to fetch into L2: 0 not at all, 1 a panel, 2 as far as the sum walks within a panel.  Where
    loops read the same again, each time fetches a part of what comes next.

    before:  B[k, j]
    after:   B[j - j mod w, k, j mod w]
    """

    kind: ClassVar[str] = "pack"
    version: ClassVar[int] = 1
    tensor: OperationId
    dim: int
    reader: StageId
    loops: tuple[LoopId, ...]
    writer_loops: tuple[LoopId, ...] = ()
    prefetch: Factor = 0


@dataclass(frozen=True, slots=True)
class SharedTiles:
    """How the tiles of a stage lie in the shared memory of a GPU block.

    ``count`` (1 to 4, or a decision) of them are kept, so that ``count - 1`` are filled ahead of
    the one that is read.  ``layout`` (0 to 4, or a decision): 0 row-major; 1 with rows that are 16
    bytes longer; 2 with dimension ``dim`` innermost; 3 both; 4 row-major, with the pieces of 16
    bytes of a row in an order that depends on the row; ``TURNED_PIECES``: 2 and 4.
    """

    kind: ClassVar[str] = "shared_tiles"
    version: ClassVar[int] = 1
    stage: StageId
    count: Factor = 1
    dim: int = 0
    layout: Factor = 0


@dataclass(frozen=True, slots=True)
class BlockOrder:
    """In which order the blocks of a root ``stage`` start, so that those that run at a time read
    the same of their operands.

    ``rows`` (1 to 16, or a decision) blocks along ``loop`` start one after another, before those
    loops of blocks that are inside it go on; the last group has what is left.

    before:  (i 0, j 0), (i 0, j 1), (i 0, j 2), (i 1, j 0), ...
    after:   (i 0, j 0), (i 1, j 0), (i 0, j 1), (i 1, j 1), ...          (2 rows)
    """

    kind: ClassVar[str] = "block_order"
    version: ClassVar[int] = 1
    stage: StageId
    loop: LoopId
    rows: Factor = 1


@dataclass(frozen=True, slots=True)
class Tensorize:
    """The loops ``loops`` of ``stage``, of fixed trips, and its vectorised one are one tensor unit.

    They stand innermost, outside of the vectorised loop alone.  Where ``stage`` reads a packed
    tensor along one of them, what a unit takes of it lies together, innermost in its panels.

    before:  B[j - j mod w, k, j mod w]
    after:   B[j - j mod w, k / 4, j mod w, k mod 4]          (a unit that adds four products)
    """

    kind: ClassVar[str] = "tensorize"
    version: ClassVar[int] = 1
    stage: StageId
    loops: tuple[LoopId, ...]


Step = (
    Inline
    | CacheWrite
    | CacheRead
    | Rfactor
    | SplitReduce
    | Split
    | Reorder
    | ComputeAt
    | Annotate
    | Pack
    | SharedTiles
    | BlockOrder
    | Tensorize
)
STEP_KINDS: Final[tuple[type[Step], ...]] = (
    Inline,
    CacheWrite,
    CacheRead,
    Rfactor,
    SplitReduce,
    Split,
    Reorder,
    ComputeAt,
    Annotate,
    Pack,
    SharedTiles,
    BlockOrder,
    Tensorize,
)

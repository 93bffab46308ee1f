"""Pairs: a product that another reduction reads, for one block of that one's results at a time.

    parallel blocks of the results of a depthwise convolution
      the product that it reads, and what follows it element by element, tiled: the block's rows and
      those around them that windows reach into
      the depthwise convolution, tiled

so that what lies between the two stays in a thread's own cache.  Rows that two blocks read are
computed twice; so the product may also be computed ahead, in a nest of its own.  One of the two
sums vector by vector, as depthwise convolutions do; two products of matrices are chains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from sketch.analysis.access import affine_index, needs_tiling, stage_loads
from sketch.lang.tensor import Compute
from sketch.nest.loopnest import LoopKind
from sketch.rules.locations import candidate_locations
from sketch.rules.packing import packing_choices
from sketch.rules.patterns import is_made_of_product, is_output, vector_axis
from sketch.rules.rule import State, Verdict
from sketch.rules.tiling import CACHE_TILE, REGISTER_TILE, Tiling, tiled_producer
from sketch.rules.unit_fit import fits_of
from sketch.schedule.loop import LoopId
from sketch.schedule.program import StagePlan, root_host
from sketch.schedule.steps import ComputeAt, Factor
from sketch.target.units import units_of

# Blocks are small: one level of tiles inside them, around the register tile.
_IN_BLOCK: Final = "SRS"


@dataclass(frozen=True, slots=True)
class TileBesideProduct:
    """Tile a reduction that reads what is made of a product, vector by vector: blocks of all
    vectors outermost.  What the product is packed in does not depend on that of the blocks then.
    """

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Root stages that read such a reduction element by element."""
        found = tiled_producer(state, stage)
        if stage.attach is not None or found is None or not _sums_vectors(found.op):
            return Verdict.SKIP
        made = (is_made_of_product(state.program, x.tensor.op) for x in stage_loads(found.op))
        wide = sum(axis.extent > 1 for axis in stage.op.axes) > 1
        return Verdict.APPLY if wide and any(made) else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state per structure and way to pack."""
        found, vector = tiled_producer(state, stage), vector_axis(stage.op)
        assert found is not None
        blocks = frozenset(axis for axis in stage.op.axes if axis is not vector)
        states: list[State] = []
        for structure in (REGISTER_TILE, CACHE_TILE):
            tiling = Tiling(state, stage, found, structure, False, blocks=blocks)
            states += packing_choices(tiling.apply(), found.id, tiling.panel())
        return tuple(states)


@dataclass(frozen=True, slots=True)
class TileForReduction:
    """Tile a product in the nest of the only reduction that reads what is made of it, or ahead."""

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Stages that read a pending product element by element, and that a reduction reads, one of
        both vector by vector.
        """
        program = state.program
        if stage.op.reduce is not None or is_output(program, stage):
            return Verdict.SKIP
        readers = program.consumers(stage.op)
        product = tiled_producer(state, stage)
        if len(readers) != 1 or readers[0].op.reduce is None or product is None:
            return Verdict.SKIP
        by_vectors = _sums_vectors(product.op) or _sums_vectors(readers[0].op)
        if not by_vectors or not needs_tiling(product.op):
            return Verdict.SKIP
        on_unit = fits_of(program, product, units_of(state.target))
        if on_unit or _block_loop(state, stage) is None:
            return Verdict.SKIP
        return Verdict.APPLY_AND_STOP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """Per order of the tiles and way to pack: one state in the nest, and one ahead where blocks
        are of all vectors.
        """
        product, block = tiled_producer(state, stage), _block_loop(state, stage)
        assert product is not None and block is not None
        host = root_host(state.program, state.program.consumers(stage.op)[0])
        attached = state.then(ComputeAt(stage.id, host.id, block))
        inside, panel = attached.program.stage(stage.id), _panel_trips(host, block)
        tilings = [
            Tiling(attached, inside, product, _IN_BLOCK, order, nested=True, panel_trips=panel)
            for order in (True, False)
        ]
        if panel is None:
            tilings += [Tiling(state, stage, product, REGISTER_TILE, x) for x in (True, False)]
        states: list[State] = []
        for tiling in tilings:
            states += packing_choices(tiling.apply(), product.id, tiling.panel())
        return tuple(states)


def _sums_vectors(op: Compute) -> bool:
    """Whether all that a reduction reads depends on the axis that vectors run along."""
    vector = vector_axis(op)
    return all(
        any(vector in form[0] for index in load.indices if (form := affine_index(index)))
        for load in stage_loads(op)
    )


def _block_loop(state: State, stage: StagePlan) -> LoopId | None:
    """The innermost of the loops that threads share, in the nest of the reduction that reads
    ``stage``, if it is outside of that reduction.
    """
    (reader,) = state.program.consumers(stage.op)
    host, found = root_host(state.program, reader), candidate_locations(state.program, stage)
    if host.id not in state.scheduled or host is reader or not found:
        return None
    loops = host.loops()
    within = loops[: loops.index(found[0][1]) + 1]
    shared = [loop for loop in within if host.kinds.get(loop) is LoopKind.PARALLEL]
    return shared[-1] if shared else None


def _panel_trips(host: StagePlan, block: LoopId) -> Factor | None:
    """Vectors in a panel of the weights where blocks are of some of the vectors: those that a tile
    of ``host`` has, so that each block starts with a panel.  None where they are of all.
    """
    vector, loops = vector_axis(host.op), host.loops()
    around = {host.loop_axis(loop) for loop in loops[: loops.index(block) + 1]}
    if vector is None or vector not in around:
        return None
    *_, trips, _ = (1, *host.splits.get(host.axis(vector), (1,)))
    return trips

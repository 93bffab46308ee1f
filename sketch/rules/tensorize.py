"""Tensorize: tile a contraction so that tensor units compute it.

Beside what tiling by vectors offers, never in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sketch.rules.packing import packing_choices
from sketch.rules.rule import State, Verdict
from sketch.rules.tiling import CACHE_TILE, REGISTER_TILE, Tiling, tiled_producer
from sketch.rules.unit_fit import Fit, fits_of
from sketch.schedule.program import StagePlan
from sketch.target.units import TensorUnit, units_of


@dataclass(frozen=True, slots=True)
class TileOnUnits:
    """``for i, for j, for k``  ->  the tiles of MultiLevelTilingWithFusion, of units in place of
    vectors: innermost k.2 (as many products as a unit adds) and the lanes.

    Attributes:
        units: to choose from; None: those of the target.
    """

    units: tuple[TensorUnit, ...] | None = None

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Spatial stages that read a pending reduction that a unit computes."""
        return Verdict.APPLY if self._fits(state, stage) else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state per unit, structure, and order of the outer tiles."""
        producer = tiled_producer(state, stage)
        assert producer is not None
        states: list[State] = []
        for fit in self._fits(state, stage):
            for structure in (REGISTER_TILE, CACHE_TILE):
                for outside in (True, False):
                    tiling = Tiling(state, stage, producer, structure, outside, unit=fit)
                    states += packing_choices(tiling.apply(), producer.id, tiling.panel())
        return tuple(states)

    def _fits(self, state: State, stage: StagePlan) -> tuple[Fit, ...]:
        producer = tiled_producer(state, stage)
        if producer is None:
            return ()
        units = units_of(state.target) if self.units is None else self.units
        return fits_of(state.program, producer, units)

"""Tensorize: tile a contraction so that tensor units compute it.

Beside what tiling by vectors offers, never in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sketch.rules.packing import packing_choices
from sketch.rules.rule import State, Verdict
from sketch.rules.tiling import CACHE_TILE, REGISTER_TILE, Tiling, tiled_producer
from sketch.rules.unit_fit import Fit, fits_of, turned_operand
from sketch.schedule.program import StagePlan
from sketch.schedule.steps import Inline
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
        return Verdict.APPLY if self._place(state, stage).fits else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state per unit, structure, and order of the outer tiles."""
        place = self._place(state, stage)
        assert place.producer is not None
        states: list[State] = []
        for fit in place.fits:
            for structure in (REGISTER_TILE, CACHE_TILE):
                for outside in (True, False):
                    tiling = Tiling(
                        place.state, place.stage, place.producer, structure, outside, unit=fit
                    )
                    states += packing_choices(tiling.apply(), place.producer.id, tiling.panel())
        return tuple(states)

    def _place(self, state: State, stage: StagePlan) -> _Place:
        """What is tiled; an operand that only turns another one is read where that is, if units
        have more to do there.
        """
        place = self._as_it_is(state, stage)
        if place.producer is None:
            return place
        turned = turned_operand(state.program, place.producer)
        if turned is None:
            return place
        inlined = state.then(Inline(turned))
        return min(place, self._as_it_is(inlined, inlined.program.stage(stage.id)), key=_idle)

    def _as_it_is(self, state: State, stage: StagePlan) -> _Place:
        producer = tiled_producer(state, stage)
        if producer is None:
            return _Place(state, stage, None, ())
        units = units_of(state.target) if self.units is None else self.units
        return _Place(state, stage, producer, fits_of(state.program, producer, units))


@dataclass(frozen=True, slots=True)
class _Place:
    """A reduction and what reads it, in a state, and how units compute it."""

    state: State
    stage: StagePlan
    producer: StagePlan | None
    fits: tuple[Fit, ...]


def _idle(place: _Place) -> float:
    return min((fit.idle for fit in place.fits), default=1.0)

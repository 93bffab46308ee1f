"""Which trip counts sketches offer on a kind of machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sketch.schedule.factors import power_choices, tile_choices
from sketch.target.of_kind import of_kind
from sketch.target.target import Target, TargetKind


@dataclass(frozen=True, slots=True)
class TripChoices:
    """Trip counts to choose from.

    Attributes:
        kind: of the machine.
        tiles: (extent, most or None) to those of a tile level.
        reduce_unroll: copies of the body of the innermost reduce loop.
    """

    kind: TargetKind
    tiles: Callable[[int, int | None], tuple[int, ...]]
    reduce_unroll: tuple[int, ...]


# More copies gain nothing measurable on CPUs and cost compile time.  On GPUs a tile in shared
# memory may be unrolled as a whole, its reads are then paired freely; numbers of threads that fill
# warps are powers of two.
_CPU_TRIPS: Final = TripChoices("cpu", tile_choices, (1, 2, 4))
_GPU_TRIPS: Final = TripChoices("cuda", power_choices, (1, 2, 4, 8, 16))


def trip_choices_of(target: Target) -> TripChoices:
    """What is offered for a target."""
    return of_kind(target, (_CPU_TRIPS, _GPU_TRIPS))

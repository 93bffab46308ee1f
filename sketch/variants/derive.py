"""Which other programs compute what a program computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from sketch.dag.dag import ComputeDAG
from sketch.variants.implicit_gemm import implicit_gemm
from sketch.variants.joined_columns import LANES, LEAST_LANES, joined_columns
from sketch.variants.joined_groups import joined_groups
from sketch.variants.late_factors import late_factors
from sketch.variants.narrow_rows import narrow_implicit_gemm, narrow_zero_padded
from sketch.variants.strassen import strassen
from sketch.variants.winograd import winograd, winograd_in_parts
from sketch.variants.winograd_blocks import (
    winograd_eight,
    winograd_four,
    winograd_four_in_lines,
    winograd_six,
    winograd_strided_five,
    winograd_strided_three,
    winograd_three,
)
from sketch.variants.winograd_phases import (
    winograd_phases_seven,
    winograd_phases_six,
    winograd_phases_six_by_seven,
)
from sketch.variants.zero_padded import zero_padded


class Algorithm(NamedTuple):
    """A way to compute what a program computes.

    Attributes:
        name: of the variant.
        derive: gives None where it does not apply.
        error_growth: how many times larger its rounding errors are than those of the program as it
            is written, at most.
        moves_results: whether its stages may have store maps where those as written have none.
        lanes: of float32 in the vectors that it is for; None: any.
    """

    name: str
    derive: Callable[[ComputeDAG], ComputeDAG | None]
    error_growth: float
    moves_results: bool = False
    lanes: int | None = None

    def suits(self, lanes: int) -> bool:
        """Whether it is for vectors of so many float32, or for the most similar ones."""
        return self.lanes is None or self.lanes == min(max(lanes, LEAST_LANES), LANES)


# Measured: of three and four points 2 at most, of five and six 3 to 9, of eight 10 to 30.
_F2_GROWTH: Final = 2.5
_SIX_POINTS_GROWTH: Final = 10.0
_EIGHT_POINTS_GROWTH: Final = 40.0
# The same products and sums, and zeros.
_JOINED_GROWTH: Final = 2.0
# 1 to 2.5, and 9 where the direct product adds several partial sums.
_STRASSEN_GROWTH: Final = 10.0

ALGORITHMS: Final[tuple[Algorithm, ...]] = (
    Algorithm("winograd-3", winograd_three, _F2_GROWTH),
    Algorithm("winograd-4", winograd_four, _F2_GROWTH),
    Algorithm("winograd-4-lines", winograd_four_in_lines, _F2_GROWTH),
    Algorithm("winograd-6", winograd_six, _SIX_POINTS_GROWTH),
    Algorithm("winograd-8", winograd_eight, _EIGHT_POINTS_GROWTH),
    Algorithm("winograd-3-strided", winograd_strided_three, _F2_GROWTH),
    Algorithm("winograd-5-strided", winograd_strided_five, _SIX_POINTS_GROWTH),
    Algorithm("winograd-6-phases", winograd_phases_six, _SIX_POINTS_GROWTH),
    Algorithm("winograd-6x7-phases", winograd_phases_six_by_seven, _EIGHT_POINTS_GROWTH),
    Algorithm("winograd-7-phases", winograd_phases_seven, _EIGHT_POINTS_GROWTH),
    Algorithm("joined-groups", joined_groups, 1.0, moves_results=True),
    Algorithm("joined-columns", joined_columns, _JOINED_GROWTH, True, LANES),
    *(
        Algorithm(f"joined-columns-{n}", partial(joined_columns, lanes=n), _JOINED_GROWTH, True, n)
        for n in (LEAST_LANES, 2 * LEAST_LANES)
    ),
    Algorithm("strassen", strassen, _STRASSEN_GROWTH, moves_results=True),
    Algorithm("zero-padded", narrow_zero_padded, 1.0),
    Algorithm("implicit-gemm", narrow_implicit_gemm, 1.0, moves_results=True),
    Algorithm("late-factors", late_factors, 1.0),
)
# No longer searched, as another is faster; schedules in logs are replayed.
RETIRED_ALGORITHMS: Final[tuple[Algorithm, ...]] = (Algorithm("winograd", winograd, _F2_GROWTH),)
GPU_ALGORITHMS: Final[tuple[Algorithm, ...]] = (
    Algorithm("winograd", winograd_in_parts, _F2_GROWTH),
    Algorithm("winograd-4", winograd_four, _F2_GROWTH),
    Algorithm("implicit-gemm", implicit_gemm, 1.0, moves_results=True),
    Algorithm("zero-padded", zero_padded, 1.0),
)


def error_growth(name: str) -> float:
    """The ``error_growth`` of an algorithm; infinite for a variant that is none of ours."""
    every = (*ALGORITHMS, *RETIRED_ALGORITHMS, *GPU_ALGORITHMS)
    known = [algorithm.error_growth for algorithm in every if algorithm.name == name]
    return max(known, default=math.inf)


def variants_of(dag: ComputeDAG, algorithms: tuple[Algorithm, ...]) -> dict[str, ComputeDAG]:
    """By name of the algorithm; ``dag`` itself is not among them."""
    found = {algorithm.name: algorithm.derive(dag) for algorithm in algorithms}
    return {name: other for name, other in found.items() if other is not None}

"""Which other programs compute what a program computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from sketch.dag.dag import ComputeDAG
from sketch.variants.implicit_gemm import implicit_gemm
from sketch.variants.winograd import winograd, winograd_in_parts
from sketch.variants.winograd_blocks import winograd_4x4


class Algorithm(NamedTuple):
    """A way to compute what a program computes; ``derive`` gives None where it does not apply."""

    name: str
    derive: Callable[[ComputeDAG], ComputeDAG | None]


ALGORITHMS: Final[tuple[Algorithm, ...]] = (
    Algorithm("winograd", winograd),
    Algorithm("winograd-4x4", winograd_4x4),
)
GPU_ALGORITHMS: Final[tuple[Algorithm, ...]] = (
    Algorithm("winograd", winograd_in_parts),
    Algorithm("implicit-gemm", implicit_gemm),
)


def variants_of(dag: ComputeDAG, algorithms: tuple[Algorithm, ...]) -> dict[str, ComputeDAG]:
    """By name of the algorithm; ``dag`` itself is not among them."""
    found = {algorithm.name: algorithm.derive(dag) for algorithm in algorithms}
    return {name: other for name, other in found.items() if other is not None}

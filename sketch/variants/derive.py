"""Which other programs compute what a program computes, for a target."""

from __future__ import annotations

from sketch.dag import ComputeDAG
from sketch.target import Target
from sketch.variants.winograd import winograd


def variants_of(dag: ComputeDAG, target: Target) -> dict[str, ComputeDAG]:
    """By name of the algorithm; ``dag`` itself is not among them."""
    if target.kind != "cpu":
        return {}
    other = winograd(dag)
    return {} if other is None else {"winograd": other}

"""What a program takes, roughly, before any schedule of it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.tasks.compulsory_traffic import compulsory_bytes

if TYPE_CHECKING:
    from sketch.dag.dag import ComputeDAG
    from sketch.target.target import Target


def rough_seconds(dag: ComputeDAG, target: Target) -> float:
    """Seconds of the arithmetic and of the compulsory traffic, by what the machine does at best.

    Only ratios between programs matter: the scheduler ranks tasks by it that were never measured.
    """
    card, rates = target.card, target.rates
    if card.hertz:
        multiply_adds = card.fma_lanes * target.threads * card.hertz
        bytes_per_s = card.memory_bytes_per_s
    else:
        units = target.fma_accumulators / (rates.fma_slack * rates.fma_latency)
        multiply_adds = units * target.lanes() * target.threads * rates.hertz
        bytes_per_s = rates.memory * target.vector_bytes * rates.hertz
    return dag.flops / (2 * multiply_adds) + compulsory_bytes(dag) / bytes_per_s

"""What generates sketches for a kind of machine: rules and algorithms, chosen by the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sketch.population.feasible import GPU, SIMD_CPU, Hardware, hardware_of
from sketch.rules.blocks import ComputeInBlocks, ScheduleInBlocks
from sketch.rules.cache_write import AddCacheWrite
from sketch.rules.chains import ComputeInChain, TileInChain
from sketch.rules.compute_location import ComputeLocation
from sketch.rules.gpu_blocks import TileBlocksInThreads, TransformInFill
from sketch.rules.gpu_inline import InlineBesideSums, InlineInThreads
from sketch.rules.gpu_split_reduce import SplitForBlocks, SplitRowsForBlocks
from sketch.rules.gpu_threads import AddPrivateSum, ComputeInThreads, ScheduleOnThreads
from sketch.rules.gpu_tiling import GpuTilingWithFusion
from sketch.rules.gpu_transpose import TransposeInTiles
from sketch.rules.gpu_units import TileOnWarps
from sketch.rules.inline import InlineStage
from sketch.rules.pairs import TileBesideProduct, TileForReduction
from sketch.rules.products_in_lanes import ComputeProductsInLanes
from sketch.rules.rfactor import AddRfactor
from sketch.rules.rows_together import ScheduleRowsTogether
from sketch.rules.rule import SketchRule
from sketch.rules.scatter import ScheduleScatter
from sketch.rules.simple import ScheduleSimply
from sketch.rules.tensorize import TileOnUnits
from sketch.rules.tiling import MultiLevelTilingWithFusion
from sketch.target.target import Target
from sketch.variants.derive import ALGORITHMS, GPU_ALGORITHMS, RETIRED_ALGORITHMS, Algorithm


@dataclass(frozen=True, slots=True)
class SketchBackend:
    """The part of a back end that the search needs; code is made elsewhere.

    Attributes:
        hardware: which rows fit the machine.
        rules: the built-in sketch rules, in the order in which they are asked; the last one always
            applies.
        algorithms: other ways to compute a program that may be faster on such a machine; see
            ``algorithms_of``.
        chains: whether the rules compute products of what other products make block by block.
        retired: ways that were among them once: logs have schedules of them.
        widens: whether programs without units make float32 numbers of 16-bit ones for each product.
    """

    hardware: Hardware
    rules: tuple[SketchRule, ...]
    algorithms: tuple[Algorithm, ...]
    chains: bool
    retired: tuple[Algorithm, ...] = ()
    widens: bool = False


CPU_SKETCHES: Final = SketchBackend(
    SIMD_CPU,
    (
        ScheduleScatter(),
        AddRfactor(),
        TileForReduction(),
        ComputeInChain(),
        InlineStage(between_products=False),
        TileInChain(),
        TileBesideProduct(),
        ScheduleInBlocks(),
        ComputeInBlocks(),
        ComputeLocation(),
        AddCacheWrite(),
        TileOnUnits(),
        ComputeProductsInLanes(),
        MultiLevelTilingWithFusion(),
        ScheduleRowsTogether(),
        ScheduleSimply(),
    ),
    ALGORITHMS,
    True,
    RETIRED_ALGORITHMS,
    widens=True,
)
GPU_SKETCHES: Final = SketchBackend(
    GPU,
    (
        TileBlocksInThreads(),
        TransformInFill(),
        InlineInThreads(),
        InlineBesideSums(),
        SplitRowsForBlocks(),
        ComputeInThreads(),
        AddPrivateSum(),
        SplitForBlocks(),
        TileOnWarps(),
        GpuTilingWithFusion(),
        TransposeInTiles(),
        ScheduleOnThreads(),
    ),
    GPU_ALGORITHMS,
    False,
)
SKETCH_BACKENDS: Final = (CPU_SKETCHES, GPU_SKETCHES)


def sketch_backend(target: Target) -> SketchBackend:
    """The back end whose hardware is that of the target."""
    hardware = hardware_of(target)
    return next(backend for backend in SKETCH_BACKENDS if backend.hardware is hardware)


def algorithms_of(target: Target) -> tuple[Algorithm, ...]:
    """Other ways to compute a program that may be faster on a target."""
    lanes = target.lanes()
    return tuple(each for each in sketch_backend(target).algorithms if each.suits(lanes))


def unsearched_algorithms(target: Target) -> tuple[Algorithm, ...]:
    """Ways that logs may have schedules of, of earlier releases or of machines with other lanes."""
    backend, lanes = sketch_backend(target), target.lanes()
    others = (each for each in backend.algorithms if not each.suits(lanes))
    return (*backend.retired, *others)


def default_rules(target: Target) -> tuple[SketchRule, ...]:
    """The built-in rules for a target, in the order in which they are asked."""
    return sketch_backend(target).rules

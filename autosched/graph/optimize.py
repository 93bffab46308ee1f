"""The passes in order: from the graph as the model has it to the graph that is fused."""

from collections.abc import Callable
from typing import Final

from autosched.graph.ir import Graph
from autosched.graph.passes.batch_norm import fold_batch_norm
from autosched.graph.passes.bias import fold_bias
from autosched.graph.passes.byte_products import byte_products
from autosched.graph.passes.clean_up import clean_up
from autosched.graph.passes.concat import split_concats
from autosched.graph.passes.constant_folding import fold_constants
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.equal_nodes import merge_equal_nodes
from autosched.graph.passes.gathered_points import gather_along_one
from autosched.graph.passes.integer_products import integer_products
from autosched.graph.passes.joined_operands import read_joined_operands
from autosched.graph.passes.joined_products import join_products
from autosched.graph.passes.joined_slices import join_slices
from autosched.graph.passes.layout import to_channels_last
from autosched.graph.passes.matmul import matmul_to_dense
from autosched.graph.passes.narrow_weights import narrow_weights
from autosched.graph.passes.normalization import recognize_normalizations
from autosched.graph.passes.padding import fold_padding
from autosched.graph.passes.reciprocals import multiply_by_reciprocals
from autosched.graph.passes.regular_gathers import pick_regular
from autosched.graph.passes.repeated_places import read_places_once
from autosched.graph.passes.repeats import fold_repeats
from autosched.graph.passes.scaled_sums import fold_scaled_sums
from autosched.graph.passes.scales import move_scales
from autosched.graph.passes.sink_views import sink_views
from autosched.graph.passes.taps_in_rows import taps_in_rows
from autosched.graph.passes.transposed_products import fold_transposes
from autosched.graph.passes.triangles import name_triangles
from autosched.graph.passes.turned_weights import turn_weights
from autosched.graph.passes.unit_dimensions import drop_unit_dimensions
from autosched.graph.passes.unread_taps import drop_unread_taps
from autosched.graph.passes.whole_normalization import normalize_in_place
from autosched.graph.passes.wide_softmax import widen_softmax

Pass = Callable[[Graph], Graph]

PASSES: Final[tuple[Pass, ...]] = (
    clean_up,
    integer_products,
    byte_products,
    narrow_weights,
    fold_constants,
    fold_scaled_sums,
    widen_softmax,
    merge_equal_nodes,
    gather_along_one,
    pick_regular,
    read_places_once,
    join_slices,
    fold_padding,
    drop_unread_taps,
    recognize_normalizations,
    normalize_in_place,
    name_triangles,
    multiply_by_reciprocals,
    move_scales,
    turn_weights,
    fold_repeats,
    remove_dead_code,  # means, scaled and repeated values that nothing reads any more
    matmul_to_dense,
    sink_views,
    remove_dead_code,  # views that nothing reads any more
    fold_bias,
    fold_batch_norm,
    to_channels_last,
    clean_up,  # transposes that turned out to be views; operands of now equal shape
    fold_transposes,
    drop_unit_dimensions,
    fold_constants,
    remove_dead_code,
    join_products,
    read_joined_operands,
    split_concats,
)

NARROW_PASSES: Final[tuple[Pass, ...]] = (taps_in_rows,)
"""For layers of narrow numbers, once those of a reduced network are."""


def optimize(graph: Graph) -> Graph:
    """Apply all passes; every intermediate graph is verified as it is built."""
    return _applied(PASSES, graph)


def optimize_narrow(graph: Graph) -> Graph:
    """Apply the passes for narrow layers to an optimised graph."""
    return _applied(NARROW_PASSES, graph)


def _applied(passes: tuple[Pass, ...], graph: Graph) -> Graph:
    for apply in passes:
        graph = apply(graph)
    return graph

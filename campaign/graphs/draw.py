"""Random graphs: operators of all families, one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from campaign.graphs.arithmetic import ARITHMETIC
from campaign.graphs.graph import Graph, Rejected, draw_shape
from campaign.graphs.layers import LAYERS
from campaign.graphs.movement import MOVEMENT
from campaign.graphs.quantised import QUANTISED
from campaign.graphs.reductions import REDUCTIONS
from campaign.verdict import Json

# Adds a node (or two) of its operator; raises Rejected where that is impossible.
Adder = Callable[[Graph], object]
ADDERS: Final[Mapping[str, Adder]] = {**ARITHMETIC, **MOVEMENT, **REDUCTIONS, **LAYERS, **QUANTISED}
_ATTEMPTS: Final = 30
# Of all nodes: these operators have rules of their own (tensor units), and are few among many.
_QUANTISED_SHARE: Final = 0.12


def draw_graph(rng: Random) -> Json:
    """A graph of one to seven nodes."""
    graph = Graph(rng)
    dtype = rng.choice(("float32",) * 6 + ("int32", "int64", "float64", "float16", "bool"))
    graph.new_input(dtype, draw_shape(rng, rng.choice((1, 2, 2, 3, 3, 4, 4))))
    names, quantised = sorted(ADDERS), sorted(QUANTISED)
    size = rng.choice((1, 2, 2, 3, 3, 4, 5, 7))
    for _ in range(_ATTEMPTS):
        if len(graph.nodes) >= size:
            break
        kept = (len(graph.inputs), len(graph.constants), len(graph.nodes), len(graph.tensors))
        try:
            ADDERS[rng.choice(quantised if rng.random() < _QUANTISED_SHARE else names)](graph)
        except Rejected:
            del graph.inputs[kept[0] :]
            del graph.constants[kept[1] :]
            del graph.nodes[kept[2] :]
            del graph.tensors[kept[3] :]
    if not graph.nodes:
        graph.add("Identity", [graph.tensors[0]])
    return {**graph.to_json(), "values": rng.randrange(2**31), "threads": rng.choice((1, 1, 1, 2))}

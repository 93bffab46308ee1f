"""The part of the campaign that runs ONNX graphs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from random import Random
from typing import Final

from campaign.graphs.draw import draw_graph
from campaign.graphs.judge import judge_graph
from campaign.part import Mark
from campaign.verdict import Json, Verdict


class GraphPart:
    """Random typed graphs of several nodes, compiled and compared."""

    def draw(self, seed: int) -> Json:
        """A graph, the seed of its inputs, threads."""
        return draw_graph(Random(seed))

    def judge(self, case: Json, mark: Mark) -> Verdict:
        """Run it here and in onnxruntime."""
        warnings.simplefilter("ignore")
        return judge_graph(case, mark)

    def smaller(self, case: Json) -> Iterator[Json]:
        """Fewer outputs, fewer nodes, one thread."""
        if len(case["outputs"]) > 1:
            for name in case["outputs"]:
                yield _needed({**case, "outputs": [name]})
        for node in reversed(case["nodes"]):
            yield from _without(case, node)
        if case["threads"] > 1:
            yield {**case, "threads": 1}


def _without(case: Json, node: list[object]) -> Iterator[Json]:
    """The results of a node are given as an input, or are outputs no more."""
    from campaign.graphs.graph import typed_model
    from campaign.graphs.types import types_of

    _, inputs, outputs, _ = node
    assert isinstance(outputs, list)
    types = types_of(typed_model(case))
    rest = [other for other in case["nodes"] if other is not node]
    read = {name for other in rest for name in other[1]}
    wanted = [name for name in case["outputs"] if name not in outputs]
    if wanted:
        given = [[name, *types[name]] for name in outputs if name in read]
        yield _needed({**case, "nodes": rest, "outputs": wanted, "inputs": case["inputs"] + given})
    elif isinstance(inputs, list):
        made = {name for other in rest for name in other[2]}
        earlier = [name for name in inputs if name in made]
        if earlier:
            yield _needed({**case, "nodes": rest, "outputs": earlier})


def _needed(case: Json) -> Json:
    """Only what the outputs need."""
    needed = set(case["outputs"])
    nodes: list[list[object]] = []
    for node in reversed(case["nodes"]):
        if needed & set(node[2]):
            nodes.insert(0, node)
            needed |= set(node[1])
    return {
        **case,
        "nodes": nodes,
        "inputs": [entry for entry in case["inputs"] if entry[0] in needed],
        "constants": [entry for entry in case["constants"] if entry[0] in needed],
    }


PART: Final = GraphPart()

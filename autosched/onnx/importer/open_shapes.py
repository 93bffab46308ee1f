"""Which results of ONNX nodes have shapes that depend on data, as their operators are defined."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

import onnx

from autosched.host.node_names import nested_graphs, read_names, walk

_ALWAYS: Final = frozenset(("Compress", "NonMaxSuppression", "NonZero", "StringSplit", "Unique"))
# Positions of the inputs whose elements decide the shape of the result.
_SIZING: Final[Mapping[str, tuple[int, ...]]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "DFT": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "If": (0,),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "ReduceL1": (1,),
    "ReduceL2": (1,),
    "ReduceLogSum": (1,),
    "ReduceLogSumExp": (1,),
    "ReduceMax": (1,),
    "ReduceMean": (1,),
    "ReduceMin": (1,),
    "ReduceProd": (1,),
    "ReduceSum": (1,),
    "ReduceSumSquare": (1,),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "SequenceAt": (1,),
    "SequenceErase": (1,),
    "SequenceInsert": (2,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}
_FIRST_STATE: Final = 2  # of a Loop's inputs: before it are the count and the condition
_OF_SHAPES: Final = ("Shape", "Size")


def open_shapes(nodes: Sequence[onnx.NodeProto], inputs: Iterable[str]) -> frozenset[str]:
    """Names of results, also of nested graphs, whose shapes follow from elements of ``inputs``.

    Args:
        nodes: in topological order.
        inputs: values that differ from run to run.
    """
    spread = _Spread(set(inputs))
    size = -1
    while size != spread.size:  # loops carry values from one iteration to the next
        size = spread.size
        for node in walk(nodes):
            spread.over(node)
    return frozenset(spread.open)


def is_sized_by_data(node: onnx.NodeProto, constants: Container[str]) -> bool:
    """Whether the shape of a result follows from elements of what the node reads.

    Not of an ``If``: its branches may have one shape.

    Args:
        node: the ONNX node.
        constants: names of values that are the same in each run.
    """
    inputs = [name for name in read_names(node) if name not in constants]
    return node.op_type != "If" and not open_shapes([node], inputs).isdisjoint(node.output)


@dataclass(slots=True)
class _Spread:
    """How far the inputs reach.

    Attributes:
        data: values whose elements depend on the inputs.
        open: values whose shapes do.
    """

    data: set[str]
    open: set[str] = field(default_factory=set)

    @property
    def size(self) -> int:
        return len(self.data) + len(self.open)

    def over(self, node: onnx.NodeProto) -> None:
        """From what a node reads to what it computes."""
        outputs = [name for name in node.output if name]
        if node.op_type in _OF_SHAPES:
            self.data.update(outputs if node.input[0] in self.open else ())
            return
        self._enter(node)
        read = [*read_names(node), *_nested_results(node)]
        if any(name in self.data for name in read):
            self.data.update(outputs)
        if any(name in self.open for name in read) or self._sizes(node):
            self.open.update(outputs)
        elif node.op_type == "Loop" and self._is_counted_by_data(node):
            self.open.update(name for name in node.output[len(node.input) - _FIRST_STATE :] if name)

    def _sizes(self, node: onnx.NodeProto) -> bool:
        """Whether data decide the shapes of the node's results."""
        positions = _SIZING.get(node.op_type, ())
        sizing = [name for k, name in enumerate(node.input) if k in positions]
        return node.op_type in _ALWAYS or any(name in self.data for name in sizing)

    def _is_counted_by_data(self, node: onnx.NodeProto) -> bool:
        """Whether data decide how often a Loop iterates, and so how long what it collects is."""
        decides = [*node.input[:_FIRST_STATE]]
        decides += [body.output[0].name for body in nested_graphs(node) if body.output]
        return any(name in self.data for name in decides)

    def _enter(self, node: onnx.NodeProto) -> None:
        """From a node's inputs, and from the states after an iteration, to its bodies' inputs."""
        loop = node.op_type == "Loop"
        given = ["", "", *node.input[_FIRST_STATE:]] if loop else [*node.input]
        for body in nested_graphs(node):
            results = [info.name for info in body.output]
            # a Loop's body takes its counter before the condition and the states that it returns
            after = ["", *results] if loop else results
            for info, before, later in zip_longest(body.input, given, after):
                if info is not None:
                    self._follow(info.name, {before, later} - {"", None})

    def _follow(self, name: str, sources: Iterable[str]) -> None:
        for reached in (self.data, self.open):
            if any(source in reached for source in sources):
                reached.add(name)


def _nested_results(node: onnx.NodeProto) -> list[str]:
    return [info.name for body in nested_graphs(node) for info in body.output]

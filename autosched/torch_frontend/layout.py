"""Where the results of a graph lie in memory: as those of torch do.

What reads them may rely on it: a view of a tensor whose channels come last in memory, or two
results of which one is a view of the other, so that writing one changes both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Layout:
    """Of one result that does not have memory of its own in row-major order.

    Attributes:
        memory: equal for results that share it.
        elements: of that memory; a result's own dtype is that of all who share it.
        strides: of each dimension, in elements.
        offset: of the first element.
    """

    memory: int
    elements: int
    strides: tuple[int, ...]
    offset: int


def layouts_of(results: Sequence[Any], computed: Collection[int]) -> Mapping[int, Layout]:
    """By position, the layouts of those among torch's results that are not plain.

    Args:
        results: what torch has computed.
        computed: positions of the tensors that are to be laid out in the same way.
    """
    memories = {index: _memory(results[index]) for index in computed if results[index].numel()}
    shared = Counter(memories.values())
    numbers = {memory: number for number, memory in enumerate(shared)}
    spans: dict[Any, list[tuple[int, int]]] = {memory: [] for memory in shared}
    for index, memory in memories.items():
        spans[memory].append(_span(results[index]))
    first = {memory: min(start for start, _ in own) for memory, own in spans.items()}
    last = {memory: max(end for _, end in own) for memory, own in spans.items()}
    return {
        index: Layout(
            numbers[memory],
            last[memory] - first[memory],
            tuple(results[index].stride()),
            _span(results[index])[0] - first[memory],
        )
        for index, memory in memories.items()
        if shared[memory] > 1 or not results[index].is_contiguous()
    }


def laid_out(results: Sequence[Any], layouts: Mapping[int, Layout]) -> tuple[Any, ...]:
    """``results`` with tensors in the place of those that have a layout."""
    if not layouts:
        return tuple(results)
    memories: dict[int, Any] = {}
    placed = list(results)
    for index, layout in layouts.items():
        result = results[index]
        memory = memories.setdefault(layout.memory, result.new_empty(layout.elements))
        placed[index] = memory.as_strided(result.shape, layout.strides, layout.offset)
        # What is repeated lies in memory once, and is written once.
        once = tuple(slice(None if stride else 1) for stride in layout.strides)
        placed[index][once].copy_(result[once])
    return tuple(placed)


def _memory(tensor: Any) -> tuple[int, Any]:
    return tensor.untyped_storage().data_ptr(), tensor.dtype


def _span(tensor: Any) -> tuple[int, int]:
    """First element in its memory, and one more than the last one."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    start = tensor.storage_offset()
    return start, start + 1 + sum((n - 1) * stride for n, stride in steps)

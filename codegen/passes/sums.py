"""Which buffers hold sums of floats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from sketch.lang.reducers import adds_floats
from sketch.nest.loopnest import Buffer, BufferLoad, LoopNest
from sketch.nest.walk import store_loads, stores


def float_sums(nest: LoopNest) -> frozenset[Buffer]:
    """Buffers into which floats are summed, and copies of such buffers."""
    found: set[Buffer] = set()
    for store, _ in stores(nest.roots):
        summed = store.reducer is not None and adds_floats(store.reducer)
        copied = any(isinstance(v, BufferLoad) and v.buffer in found for v in store.values)
        if summed or copied:
            found.update(store.targets)
    return frozenset(found)


def combined_sums(nest: LoopNest, sums: Set[Buffer]) -> frozenset[Buffer]:
    """Those of ``sums`` of which a statement takes several elements at once, such as differences
    of them, and buffers that are copied to these.
    """
    found: set[Buffer] = set()
    for store, _ in reversed(list(stores(nest.roots))):
        elements = {(load.buffer, load.indices) for load in store_loads(store)}
        counts = Counter(buffer for buffer, _ in elements)
        found.update(buffer for buffer, count in counts.items() if count > 1 and buffer in sums)
        if found.intersection(store.targets):
            copied = {v.buffer for v in store.values if isinstance(v, BufferLoad)}
            found |= copied & sums
    return frozenset(found)

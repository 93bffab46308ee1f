"""Which buffers hold sums of floats."""

from __future__ import annotations

from sketch.lang.reducers import adds_floats
from sketch.nest.loopnest import Buffer, BufferLoad, LoopNest
from sketch.nest.walk import stores


def float_sums(nest: LoopNest) -> frozenset[Buffer]:
    """Buffers into which floats are summed, and copies of such buffers."""
    found: set[Buffer] = set()
    for store, _ in stores(nest.roots):
        summed = store.reducer is not None and adds_floats(store.reducer)
        copied = any(isinstance(v, BufferLoad) and v.buffer in found for v in store.values)
        if summed or copied:
            found.update(store.targets)
    return frozenset(found)

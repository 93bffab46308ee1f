"""Constants whose next parts are fetched bit by bit: the code spreads prefetches over the trips of
loops that read again what inner loops walk.
"""

from __future__ import annotations

from costmodel.extract.access import Access
from costmodel.extract.quantity import Quantity, where
from costmodel.extract.statement import PARALLEL_KINDS, STRAIGHT_KINDS


def turns(access: Access, room: float) -> Quantity:
    """Over how many readings of the same the prefetches of an access are spread; 1: they are not.

    Args:
        access: of a constant.
        room: bytes that stay in L2 until they are read again.
    """
    walked: Quantity = float(access.element_bytes)
    again: Quantity = 1.0  # trips of the loops next around those that walk
    steps: Quantity = 1.0
    ended: Quantity = 0.0
    for loop in reversed(access.site.loops):
        uses = access.uses(loop.var)
        if loop.kind in STRAIGHT_KINDS:
            walked = walked * (loop.extent if uses else 1.0)
        elif loop.kind in PARALLEL_KINDS:
            break
        elif uses:
            ended = where((again > 1.0) & (loop.extent > 1.0), 1.0, ended)
            walked = walked * where(ended > 0.0, 1.0, loop.extent)
            steps = steps * where(ended > 0.0, 1.0, loop.extent)
        else:
            again = again * where((ended > 0.0) | (steps == 1.0), 1.0, loop.extent)
    return where(walked <= room, again, 1.0)

"""What can be counted, and how the kernel is asked for it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

_HARDWARE, _CACHE = 0, 3
_ATTRIBUTE_BYTES: Final = 64  # the first published version of the structure
_TIMES: Final = 3  # read also how long the counter was enabled and really running
# Bits of the flags.  Threads that a counted thread starts later count, too: OpenMP replaces workers
# whenever a smaller team was at work.  The operating system's own work is left out; without that,
# counting is a privilege.
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6


@dataclass(frozen=True, slots=True)
class Event:
    """Something that is counted.

    Attributes:
        name: as in tables.
        kind, config: the kernel's numbers for it.
    """

    name: str
    kind: int
    config: int

    def attribute(self) -> bytes:
        """The kernel's ``perf_event_attr``: counting in user mode, started at once."""
        flags = _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
        return struct.pack(
            "<IIQQQQQIIQ",
            self.kind, _ATTRIBUTE_BYTES, self.config, 0, 0, _TIMES, flags, 0, 0, 0,
        )  # fmt: skip


CYCLES: Final = Event("cycles", _HARDWARE, 0)
INSTRUCTIONS: Final = Event("instructions", _HARDWARE, 1)
EVENTS: Final = (
    CYCLES,
    INSTRUCTIONS,
    Event("LLC misses", _HARDWARE, 3),
    Event("L1D misses", _CACHE, 1 << 16),  # level 1 data, reads, misses
    Event("stalled front", _HARDWARE, 7),
    Event("stalled back", _HARDWARE, 8),
)

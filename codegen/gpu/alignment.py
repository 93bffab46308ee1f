"""Where values start in a GPU's memory."""

from __future__ import annotations

from typing import Final

DEVICE_ALIGNMENT: Final = 256
"""Bytes.  What ``gpu.protocol.Device.allocate`` returns is a multiple of it."""

WIDEST: Final = 16
"""Bytes of one access of a thread; what is accessed so starts at a multiple of it."""

LINE: Final = 128
"""Bytes of a line of the caches, which a warp reads at a time."""

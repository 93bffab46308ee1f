"""Where the model of a release lies: what ``autosched costmodel train`` wrote, in the package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SHIPPED: Final = Path(__file__).with_name("shipped.json")
"""A release may come without it."""

MOST_BYTES: Final = 3_000_000
"""Of the file."""

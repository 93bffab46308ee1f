"""The checksum of a line: it tells a line that was damaged from one that says something else."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

FIELD: Final = "crc32"
# Made once: every line that is read goes through it.
_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def checksum(data: Mapping[str, Any]) -> str:
    """CRC-32, eight hex digits, of all fields but the checksum itself.

    It is that of the canonical text, so neither the order of keys nor white space matters.
    """
    return _sum({name: value for name, value in data.items() if name != FIELD})


def canonical(data: Any) -> str:
    """JSON: keys sorted, no blanks, ASCII, floats as the shortest text that reads back the same."""
    return _ENCODER.encode(data)


def with_checksum(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same object with its checksum as the last field."""
    signed = {name: value for name, value in data.items() if name != FIELD}
    signed[FIELD] = _sum(signed)
    return signed


def _sum(rest: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(canonical(rest).encode('ascii')):08x}"

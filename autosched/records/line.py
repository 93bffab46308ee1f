"""One line of a log: from bytes to a JSON value."""

from __future__ import annotations

import json
from typing import Any, Final

from autosched.records.errors import RecordError
from sketch.errors import quoted

# Far more than a record of a large program takes: not worth parsing.
LONGEST_BYTES: Final = 1 << 22
# How lines that we wrote begin, the torn ones among them.
_BEGINNING: Final = b'{"v":'
# Next to "v", one of these tells a whole record or a title, a header or a trial.
_MARKS: Final = ("task", "header", "sketch")


def decode_line(line: bytes, place: str) -> Any:
    """The JSON value that a line holds; ``place`` is its file and number.

    Raises:
        RecordError: it holds none, says why not.
    """
    try:
        return _decoded(line)
    except RecursionError as error:
        raise RecordError("no JSON (nested too deeply)", place) from error
    except ValueError as error:  # also a UnicodeDecodeError
        raise RecordError(f"no JSON ({_short(error)})", place) from error


def looks_recorded(line: bytes) -> bool:
    """Whether we may have written the line, though it is torn or damaged now."""
    if line.lstrip(b"\xef\xbb\xbf \t").startswith(_BEGINNING):
        return True
    try:
        data = _decoded(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and any({"v", key} <= data.keys() for key in _MARKS)


def _decoded(line: bytes) -> Any:
    if len(line) > LONGEST_BYTES:
        raise ValueError(f"{len(line)} bytes are no record")
    return _DECODER.decode(line.decode("utf-8-sig"))


def _short(error: ValueError) -> str:
    """The reason without the data, which a UnicodeDecodeError holds."""
    return error.reason if isinstance(error, UnicodeDecodeError) else str(error)


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")  # nothing could be written again that holds it


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{quoted(twice)} is given twice")
    return found


_DECODER: Final = json.JSONDecoder(parse_constant=_reject_constant, object_pairs_hook=_distinct)

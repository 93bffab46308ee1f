"""Text streams, which may be anything that a program put in the place of stdout."""

from __future__ import annotations

from typing import TextIO


def is_terminal(stream: TextIO) -> bool:
    """Whether somebody looks at it: not where it cannot tell, or is closed."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError, OSError):
        return False


def print_line(text: str, stream: TextIO) -> None:
    """Print a line at once; characters that the stream's encoding lacks become question marks.

    Raises:
        Exception: whatever the stream raises.
    """
    try:
        print(text, file=stream, flush=True)
    except UnicodeEncodeError:
        print(text.encode("ascii", "replace").decode("ascii"), file=stream, flush=True)

"""The process of a command, from its first import to its end."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Final, NoReturn

from autosched.cli.exit_codes import SIGNALLED

# Arguments that no command computes anything for.
_ASKS_FOR_WORDS: Final = frozenset(("-h", "--help", "--version"))


def run_and_exit() -> NoReturn:
    """Run the command of this process, and end it.

    CPython ends a process by SIGINT whatever it returns if a KeyboardInterrupt has ever left code
    that ``exec`` runs from text, as every import of a dataclass does.  So nothing else runs after
    an interrupted command: its context managers have ended the child processes.
    """
    _open_closed_streams()
    # Loading the commands takes tenths of a second.  Nothing is to be undone there, and modules
    # may drop an exception while they are loaded: the handler ends the process itself.
    taken = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if taken:
        signal.signal(signal.SIGINT, _interrupted)
    from autosched.cli.app import main

    if not _ASKS_FOR_WORDS.intersection(sys.argv):
        import sketch.lang.dtypes  # noqa: F401  # NumPy, whose import an exception may break

    try:
        if taken:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = main()
    except KeyboardInterrupt:  # between two instructions, before or after the command's own
        _interrupted(signal.SIGINT)
    if code >= SIGNALLED:
        _end(code)
    sys.exit(code)


def _open_closed_streams() -> None:
    """Whatever of stdin, stdout and stderr is closed leads nowhere.

    The next files would get their numbers, and what child processes print would go into those.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _interrupted(number: int, frame: FrameType | None = None) -> NoReturn:
    """Say so in one line, as an interrupted command does; a closed terminal takes no line."""
    with suppress(OSError):
        print("autosched: interrupted", file=sys.stderr)
    _end(SIGNALLED + number)


def _end(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)

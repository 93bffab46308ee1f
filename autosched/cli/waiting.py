"""A word about what takes long: nobody should wonder whether a command hangs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

PATIENCE_S: Final = 2.0
_TERMINAL_EVERY_S: Final = 1.0
_LINE_EVERY_S: Final = 30.0


@contextmanager
def waiting(
    what: str, quiet: bool = False, stream: TextIO | None = None, patience_s: float = PATIENCE_S
) -> Iterator[None]:
    """Tell on stderr that ``what`` is still going on, once the block has taken ``patience_s``.

    On a terminal a line that counts the seconds and is wiped at the end; elsewhere a line now and
    then.  Nothing when ``quiet``.
    """
    out = stream or sys.stderr
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(what, out, done, patience_s), daemon=True)
    if not quiet:
        teller.start()
    try:
        yield
    finally:
        done.set()
        if not quiet:
            teller.join()


def _tell(what: str, out: TextIO, done: threading.Event, patience_s: float) -> None:
    began = time.monotonic()
    terminal = out.isatty()
    start, end = ("\r", "") if terminal else ("", "\n")
    wait_s, text = patience_s, ""
    while not done.wait(wait_s):
        text = f"{what}: {time.monotonic() - began:.0f} s"
        print(f"{start}{text}", end=end, file=out, flush=True)
        wait_s = _TERMINAL_EVERY_S if terminal else _LINE_EVERY_S
    if terminal and text:
        print(f"\r{' ' * len(text)}\r", end="", file=out, flush=True)

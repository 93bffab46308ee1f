"""A program with a time limit: what it has printed is kept, and nothing that it started is left."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_C: Final = ctypes.CDLL(None)
_SET_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG of prctl(2)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended.

    Attributes:
        status: its exit status; None: it was ended because its time was over.
        lines: what it printed, to both of its outputs.
    """

    status: int | None
    lines: tuple[str, ...]


def run_limited(
    words: Sequence[str], seconds: float, folder: Path, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run a program in a session of its own; on Linux it ends with this process however that ends.

    Its output goes to a file: a pipe would be held by whatever it leaves running.  An exception
    here, an interruption perhaps, ends it, too.

    Args:
        words: the program and its arguments.
        seconds: after so many it and all that it started are killed.
        folder: that it runs in.
        environment: that it gets; None: this process's.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            words, cwd=folder, env=environment, start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, preexec_fn=_end_with_parent,
        )  # fmt: skip
        status = None
        try:
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return Ended(status, tuple(output.read().splitlines()))


def _end_with_parent() -> None:
    """In the new process: it gets a signal when the thread that started it is gone."""
    _C.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)

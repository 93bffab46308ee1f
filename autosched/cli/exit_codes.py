"""What the exit code of a command says."""

from __future__ import annotations

from typing import Final

OK: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
# Shells give a command that a signal ended this much more than the number of the signal.
SIGNALLED: Final = 128
# Nobody read stdout to its end: what SIGPIPE, which Python ignores, would have given.
CUT: Final = SIGNALLED + 13

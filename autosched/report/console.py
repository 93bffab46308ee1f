"""The terminal as rich sees it; imported where there is one, for rich takes a while to load."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console


class UnendingConsole(Console):
    """A console that leaves it to its caller what becomes of a broken pipe."""

    def on_broken_pipe(self) -> NoReturn:
        """Raise the error again, in whose handler this is called: rich would end the process."""
        raise

"""What is said on stderr while a graph of ``torch.compile`` is tuned."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TextIO

from autosched.report.progress import PlainProgress
from autosched.report.table import summary_lines

if TYPE_CHECKING:
    from autosched.network_source import PathText
    from autosched.report.events import ProgressSnapshot

_LINE_EVERY_S: Final = 10.0


class GraphProgress(PlainProgress):
    """Plain lines that name the graph, and a single one at the end.

    Args:
        name: of the graph.
        log: that it is tuned into.
        stream: where to; None: stderr.
        clock: in seconds.
    """

    def __init__(
        self,
        name: str,
        log: PathText | None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            sys.stderr if stream is None else stream,
            every_s=_LINE_EVERY_S,
            clock=clock,
            prefix=f"tuning {name}: ",
            about="" if log is None else f", log {log}",
        )
        self._name = name

    def finish(self, view: ProgressSnapshot) -> None:
        """What came of it."""
        self.message(f"tuned {self._name}: {summary_lines(view)[-1]}")

"""The report of a log that grows: a page that is made again when there is more to say."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from autosched.page.document import document
from autosched.records.reading import RecordSet
from autosched.records.store import RecordStore
from autosched.report.page.roofs import Roofs
from autosched.report.page.subject import ReportSubject
from autosched.report.page.writing import page_text
from sketch.errors import AutoschedError

# A page is not made again before this many times as long as it took to make: at most a tenth of
# one CPU is taken from the run that writes the log.
_REST: Final = 9.0
# Measuring them would take the machine from the run that writes the log.
_NO_ROOFS: Final = Roofs(
    None, "Roofs are not measured during a run; `autosched report` measures them."
)


@dataclass(frozen=True, slots=True)
class PageState:
    """A page and what tells it from others: ``version`` is equal for equal logs."""

    version: str
    text: str


class LivePage:
    """The report of a log as it is now; may be asked by several threads.

    Args:
        store: the log; it need not exist yet.
        subject_of: what a report of its records is about.
        library: JavaScript that defines ``vegaEmbed``.
        clock: seconds.
    """

    def __init__(
        self,
        store: RecordStore,
        subject_of: Callable[[RecordSet], ReportSubject],
        library: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._subject_of, self._library = store, subject_of, library
        self._clock, self._lock = clock, threading.Lock()
        self._shown: PageState | None = None
        self._rests_until = clock()

    def check(self) -> bool:
        """Whether the log has records.

        Raises:
            RecordError: it is no log, or not of the network that the report is about.
        """
        found = self._store.read()
        if found.records:
            self._subject_of(found)
        return bool(found.records)

    def current(self) -> PageState:
        """The page; one that says what is wrong, where the log cannot be read."""
        with self._lock:
            began = self._clock()
            if self._shown is not None and began < self._rests_until:
                return self._shown
            version = self._version()
            if self._shown is None or version != self._shown.version:
                self._shown = PageState(version, self._made(version))
                ended = self._clock()
                self._rests_until = ended + _REST * (ended - began)
            return self._shown

    def _version(self) -> str:
        try:
            state = self._store.state()
        except AutoschedError as error:
            state = str(error)
        return hashlib.sha256(state.encode()).hexdigest()[:16]

    def _made(self, version: str) -> str:
        try:
            found = self._store.read()
            if found.records:
                return page_text(self._subject_of(found), _NO_ROOFS, self._library, version)
            text = "The log has no record yet. This page shows the first batch when it is there."
        except AutoschedError as error:
            text = str(error)
        return document(f"Waiting for {self._store.name}", text, (), self._library, version)

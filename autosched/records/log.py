"""The log: one file of JSON lines that only ever grows.

A line is written whole under a lock, so several tuners may share a file.  A process that dies in
the middle of a line leaves a torn one: readers ignore it, and the next append ends it first.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from autosched.records.errors import RecordError
from autosched.records.known import Known, read_on
from autosched.records.line import LONGEST_BYTES, looks_recorded
from autosched.records.reading import NO_LOG, NO_LOG_HINT, RecordSet, parse_lines
from autosched.records.record import Record
from autosched.records.shared import lines_of
from autosched.records.unique import unique, whole_text
from sketch.replaced_file import replaced_file
from sketch.target.target import Target

UNSAVED: Final = "autosched-unsaved.jsonl"
"""The log, in the working directory, that takes the records that another did not take."""
# Blank space written and taken back by `check_writable`: a few records' worth.
_PROBE: Final = b" " * 8191 + b"\n"


@dataclass(frozen=True, slots=True)
class RecordLog:
    """A log file, see ``RecordStore``; nothing is opened or created before it is written to.

    A log is data: it holds names and numbers, no code.  Whoever writes to one chooses among the
    schedules of a program; what does not fit a task is not used.
    """

    path: Path
    # One item, replaced by each append: a cache, no part of the value.
    _known: list[Known] = field(compare=False, repr=False)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        object.__setattr__(self, "path", Path(path))
        object.__setattr__(self, "_known", [Known()])

    @property
    def name(self) -> str:
        return str(self.path)

    def exists(self) -> bool:
        return os.path.exists(self.path)  # False for a path that no system takes, too

    def check(self) -> None:
        """Raise RecordError for a file that is no log; one that is empty or missing may be one.

        Raises:
            RecordError: it is no file, cannot be read, or has lines and we wrote none of them.
        """
        check_log(self.path)

    def check_writable(self) -> None:
        """Raise RecordError now rather than after the first batch.

        Creates the file and its directory; writes 8 KiB of blanks and takes them back.  A file
        that is no log stays as it is: nothing is appended to a table, a model or a pipe.
        """
        check_log(self.path)
        with self._locked("cannot be written") as fd:
            size = os.fstat(fd).st_size
            try:
                _write_all(fd, _PROBE)
            finally:
                os.ftruncate(fd, size)

    def append(self, records: Iterable[Record]) -> None:
        """Write a batch, and hand it to the operating system.

        One line each, after a line for what they share and the log does not have yet.  Of the
        file only what was appended since the last call is read.

        Raises:
            RecordError: the file cannot be written (full disk, no permission).  Lines that were
                written whole stay; the batch goes to ``UNSAVED`` where that can be written.
        """
        batch = list(records)
        try:
            self._write(batch)
        except RecordError as error:
            raise kept_aside(batch, error, shlex.quote(self.name)) from None

    def _write(self, batch: Sequence[Record]) -> None:
        if not batch:
            return
        with self._locked(f"cannot take {len(batch)} records") as fd:
            self._known[0], torn = read_on(fd, self._known[0])
            known = self._known[0].with_text(torn)
            lines = lines_of(batch, known.headers, known.titled)
            data = b"".join(line + b"\n" for line in lines)
            _write_all(fd, b"\n" + data if torn else data)

    def add_new(self, records: Iterable[Record]) -> int:
        known = {whole_text(record) for record in self.read().records}
        new = [record for record in unique(records) if whole_text(record) not in known]
        self._write(new)
        return len(new)

    def read(self, tasks: Collection[str] | None = None) -> RecordSet:
        """All records; corrupt lines become warnings.  A log that does not exist yet is empty.

        ``tasks``: only records of the tasks with these keys; see ``parse_lines``.

        Raises:
            RecordError: the file cannot be read, or is no log: it has lines, and we wrote none of
                them.
            NewerSchemaError: a line was written by a newer release.
        """
        check_log(self.path)
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return RecordSet((), missing=self.name)
        except OSError as error:
            raise RecordError(
                f"the log cannot be read: {error.strerror}", str(self.path)
            ) from error
        return parse_lines(text, str(self.path), tasks)

    def read_best(self, tasks: Collection[str], target: Target) -> RecordSet:
        return self.read(tasks)

    def replace(self, records: Iterable[Record], of: Iterable[Record] | None = None) -> None:
        """Write records to a log that is replaced as a whole; on an error it stays as it was.

        ``of``: see ``RecordStore``.

        Raises:
            RecordError: the file cannot be written, or is something else than a log.
        """
        check_log(self.path)
        exists = self.path.exists()
        try:
            with self._locked("cannot be written") if exists else nullcontext():
                left = self._with_newer(list(records), of)
                with replaced_file(self.path) as partial:
                    partial.parent.mkdir(parents=True, exist_ok=True)
                    partial.touch()  # no record at all is an empty log
                    RecordLog(partial)._write(left)
        except OSError as error:
            raise RecordError(
                f"the log cannot be written: {error.strerror}", str(self.path)
            ) from error

    def _with_newer(self, records: list[Record], of: Iterable[Record] | None) -> list[Record]:
        """Records, and what was added after somebody read the records ``of``."""
        if of is None:
            return records
        known = {whole_text(record) for record in (*of, *records)}
        newer = (record for record in self.read().records if whole_text(record) not in known)
        return [*records, *newer]

    def state(self) -> str:
        try:
            with self.path.open("rb") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError:
            return ""

    def upgrade(self) -> None:
        """Nothing to do: old lines are read as they are."""

    def size_bytes(self) -> int | None:
        return self.path.stat().st_size

    @contextmanager
    def _locked(self, what: str) -> Iterator[int]:
        """An open descriptor with the exclusive lock; OSErrors become one RecordError."""
        try:
            check_regular(self.path)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fd = self._open_alone()
            try:
                yield fd
            finally:
                os.close(fd)
        except OSError as error:
            raise RecordError(
                f"the log {what}: {error.strerror}",
                str(self.path),
                "free some space or choose another file; records already in it are kept",
            ) from error

    def _open_alone(self) -> int:
        """The file, locked; not one that somebody has replaced meanwhile."""
        while True:
            fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                # flock, not lockf: it also excludes another thread of this process.
                fcntl.flock(fd, fcntl.LOCK_EX)
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(fd), os.stat(self.path)):
                        return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)


def kept_aside(records: Sequence[Record], error: RecordError, into: str) -> RecordError:
    """``error``, which also says where records that a store did not take are now.

    They go to a file, since measuring them took minutes; they may be nowhere.

    Args:
        records: of the batch.
        error: what the store said.
        into: what a command calls the store.
    """
    try:
        log = RecordLog(Path.cwd() / UNSAVED)
        log._write(records)
    except (RecordError, OSError):  # the working directory may be gone, too
        return error
    what = f"{error.what}; {len(records)} records are in {log.name} instead"
    add = f"autosched records import {UNSAVED} --into {into}"
    return type(error)(what, error.where, "; then ".join(filter(None, (error.hint, add))))


def check_regular(path: Path) -> None:
    """Raise RecordError for what is no file: a pipe would block its reader.

    Raises:
        OSError: the path cannot be looked at.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        what = next((text for test, text in _OTHER_KINDS if test(mode)), "no file")
        raise RecordError(f"the log is {what}", str(path), "name a file")


def check_log(path: Path) -> None:
    """Raise RecordError for a file that is no log; one that is empty or does not exist may be one.

    Raises:
        RecordError: it is no file, cannot be read, or has lines and we wrote none of them.
    """
    try:
        check_regular(path)
        with path.open("rb") as file:
            lines = iter(lambda: file.readline(LONGEST_BYTES), b"")
            blank = True
            for line in lines:
                if looks_recorded(line):
                    return
                blank = blank and not line.strip()
            if blank:
                return
    except FileNotFoundError:
        return
    except OSError as error:
        raise RecordError(f"the log cannot be read: {error.strerror}", str(path)) from error
    raise RecordError(NO_LOG, str(path), NO_LOG_HINT)


_OTHER_KINDS: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]

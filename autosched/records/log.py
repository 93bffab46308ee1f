"""The log: one file of JSON lines that only ever grows.

A line is written whole under a lock, so several tuners may share a file.  A process that dies in
the middle of a line leaves a torn one: readers ignore it, and the next append ends it first.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from autosched.records.errors import RecordError
from autosched.records.line import LONGEST_BYTES, looks_recorded, parse_line
from autosched.records.record import NewerSchemaError, Record, to_json
from autosched.system.optional_packages import data_frame

# Blank space written and taken back by `check_writable`: a few records' worth.
_PROBE: Final = b" " * 8191 + b"\n"


@dataclass(frozen=True, slots=True)
class RecordSet:
    """What a log holds.

    Attributes:
        records: in the order they were appended.
        warnings: one line of text per line that was skipped, with file and line number.
    """

    records: tuple[Record, ...]
    warnings: tuple[str, ...] = ()

    def to_pandas(self) -> Any:
        """A pandas DataFrame: one row a record, the columns of ``rows.row_of``.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        from autosched.records.rows import COLUMNS, row_of

        return data_frame([row_of(record) for record in self.records], COLUMNS)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the same table as CSV; raises RecordError when the file cannot be written."""
        from autosched.records.rows import write_csv

        write_csv(self.records, path)


@dataclass(frozen=True, slots=True)
class RecordLog:
    """A log file; nothing is opened or created before it is written to.

    A log is data: it holds names and numbers, no code.  Whoever writes to one chooses among the
    schedules of a program; what does not fit a task is not used.
    """

    path: Path

    def __init__(self, path: str | os.PathLike[str]) -> None:
        object.__setattr__(self, "path", Path(path))

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
        """Write a batch, one line each, and hand it to the operating system.

        Raises:
            RecordError: the file cannot be written (full disk, no permission).  Lines that were
                written whole stay.
        """
        lines = [json.dumps(to_json(r), separators=(",", ":"), allow_nan=False) for r in records]
        if not lines:
            return
        with self._locked(f"cannot take {len(lines)} records") as fd:
            data = ("\n".join(lines) + "\n").encode()
            _write_all(fd, data if _ends_with_newline(fd) else b"\n" + data)

    def read(self) -> RecordSet:
        """All records; corrupt lines become warnings.  A log that does not exist yet is empty.

        Raises:
            RecordError: the file cannot be read, or is no log: it has lines, and we wrote none of
                them.
            NewerSchemaError: a line was written by a newer release.
        """
        check_log(self.path)
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return RecordSet(())
        except OSError as error:
            raise RecordError(
                f"the log cannot be read: {error.strerror}", str(self.path)
            ) from error
        return parse_lines(text, str(self.path))

    @contextmanager
    def _locked(self, what: str) -> Iterator[int]:
        """An open descriptor with the exclusive lock; OSErrors become one RecordError."""
        try:
            check_regular(self.path)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                # flock, not lockf: it also excludes another thread of this process.
                fcntl.flock(fd, fcntl.LOCK_EX)
                yield fd
            finally:
                os.close(fd)
        except OSError as error:
            raise RecordError(
                f"the log {what}: {error.strerror}",
                str(self.path),
                "free some space or choose another file; records already in it are kept",
            ) from error


def check_regular(path: Path) -> None:
    """Raise RecordError for what is no file: a pipe would block its reader for ever.

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
    raise RecordError(_NO_LOG, str(path), _NO_LOG_HINT)


_NO_LOG: Final = "this is no log: none of its lines is a record"
_NO_LOG_HINT: Final = "name a log that tuning wrote, or a new file"
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


def _ends_with_newline(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size == 0 or os.pread(fd, 1, size - 1) == b"\n"


def parse_lines(text: bytes, where: str) -> RecordSet:
    """Records from the bytes of a log; ``where`` names it in warnings.

    Raises:
        RecordError: there are lines, and we wrote none of them.
        NewerSchemaError: a line was written by a newer release.
    """
    records: list[Record] = []
    warnings: list[str] = []
    lines = text.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{where}:{number}"
        try:
            records.append(parse_line(line, place))
        except NewerSchemaError:
            raise
        except RecordError as error:
            torn = number == len(lines)
            reason = "the last line is torn (its writer died)" if torn else error.what
            warnings.append(f"{place}: skipped: {reason}")
    if warnings and not records and not any(map(looks_recorded, lines)):
        raise RecordError(f"{_NO_LOG}; {warnings[0]}", where, _NO_LOG_HINT)
    return RecordSet(tuple(records), tuple(warnings))

"""``RecordStore``: where records are kept; ``open_store`` opens one by its path or URL."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from autosched.records.errors import RecordError
from autosched.system.user_warnings import notify
from sketch.errors import quoted

if TYPE_CHECKING:
    from autosched.records.reading import RecordSet
    from autosched.records.record import Record
    from sketch.target.target import Target

_SCHEME_END: Final = "://"


@runtime_checkable
class RecordStore(Protocol):
    """Where records are kept: a file of JSON lines, or a database.

    Several processes may append to one store at the same time.  Nothing is opened or created before
    it is needed, and nothing stays open, so a store survives ``fork``.
    """

    @property
    def name(self) -> str:
        """What messages call it: its path, or its URL without the password."""
        ...

    def exists(self) -> bool:
        """Whether it is there.

        Raises:
            RecordError: that cannot be found out: the server does not answer.
        """
        ...

    def check(self) -> None:
        """Raise RecordError unless it is a store that this release reads, or is still to be made.

        Raises:
            RecordError: it is something else, or cannot be read.
            NewerSchemaError: a newer release made it.
        """
        ...

    def check_writable(self) -> None:
        """Raise RecordError now rather than after the first batch; makes a store that is not there.

        Raises:
            RecordError: it is none, or cannot be written.
        """
        ...

    def append(self, records: Iterable[Record]) -> None:
        """Add a batch, whole or not at all where a database keeps it.

        Raises:
            RecordError: it cannot be written; what it had before stays.
        """
        ...

    def add_new(self, records: Iterable[Record]) -> int:
        """Add those records that are not there yet, and say how many these are.

        Raises:
            RecordError: they cannot be read or written; what it had before stays.
        """
        ...

    def read(self, tasks: Collection[str] | None = None) -> RecordSet:
        """The records in the order they were appended; what cannot be read becomes warnings.

        ``tasks``: only of the tasks with these keys.  A store that is not there yet is empty.

        Raises:
            RecordError: it cannot be read.
            NewerSchemaError: a newer release wrote a part of it.
        """
        ...

    def read_best(self, tasks: Collection[str], target: Target) -> RecordSet:
        """What tells the best candidates of some tasks on a machine, and perhaps no more.

        As much as ``best.rank`` needs for the fastest of every variant, and the error budget; where
        a task has no record of the machine, of the nearest ones.

        Raises:
            RecordError: it cannot be read.
            NewerSchemaError: a newer release wrote a part of it.
        """
        ...

    def replace(self, records: Iterable[Record], of: Iterable[Record] | None = None) -> None:
        """These records instead of those that are there; on an error these stay.

        ``of``: only these are taken out; what others have added meanwhile stays.

        Raises:
            RecordError: it cannot be written.
        """
        ...

    def state(self) -> str:
        """Equal as long as nobody writes to it, or makes it.

        Raises:
            RecordError: it cannot be read.
        """
        ...

    def upgrade(self) -> None:
        """Bring it to the schema of this release; older ones cannot read it then.

        Raises:
            RecordError: it does not exist, or cannot be written.
            NewerSchemaError: a newer release made it.
        """
        ...

    def size_bytes(self) -> int | None:
        """What it takes on this machine's disk; None where it is not here."""
        ...


AnyLog = str | os.PathLike[str] | RecordStore
"""A log as users name it: a path, a URL, or one that is open."""


def open_store(log: AnyLog) -> RecordStore:
    """The store that a path or a URL names; nothing of it is read yet.

        >>> from autosched.records.store import open_store
        >>> open_store("resnet-18.jsonl").name
        'resnet-18.jsonl'
        >>> open_store("postgresql://ann:secret@db.example/tuning").name
        'postgresql://ann:***@db.example/tuning'

    Raises:
        RecordError: a URL of another kind of database, or one that cannot be understood; or no
            name of a log at all.
        MissingPackageError: a URL, and the packages of the extra ``db`` are not installed.
    """
    if isinstance(log, RecordStore):
        return log
    if not isinstance(log, str | os.PathLike):
        raise RecordError(f"{quoted(log)} is no log", hint="give the path of a file, or a URL")
    if isinstance(log, str) and _SCHEME_END in log:
        from autosched.records.sql.open import open_database

        return open_database(log)
    from autosched.records.log import RecordLog

    return RecordLog(log)


def log_name(log: AnyLog) -> str:
    """What messages and tables call a log: without a password."""
    return open_store(log).name


def examples_of(logs: Sequence[AnyLog]) -> tuple[Record, ...]:
    """All records of some logs; warns of lines that cannot be read.

    Raises:
        RecordError: one of them is not there, or cannot be read.
    """
    found: list[Record] = []
    for store in map(open_store, logs):
        if not store.exists():
            raise RecordError("there is no such log", store.name, "name one that tuning wrote")
        read = store.read()
        notify(read.warnings)
        found += read.records
    return tuple(found)

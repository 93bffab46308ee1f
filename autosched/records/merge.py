"""Several logs into one, and logs cut down to what is worth keeping."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from autosched.measure.result import is_wrong
from autosched.records.backup import backed_up
from autosched.records.best import comparable, rank
from autosched.records.errors import RecordError
from autosched.records.log import RecordLog
from autosched.records.reading import RecordSet
from autosched.records.record import Record
from autosched.records.store import AnyLog, open_store
from autosched.records.unique import unique, whole_text


def prune(records: Iterable[Record], keep: int) -> tuple[Record, ...]:
    """The ``keep`` fastest of every (task, target, cache state), in the order of the log.

    Others are the fastest of their variant: an error budget may leave only these.
    A candidate is kept as its latest timed record; failures go.  Where some records of a task are
    by name, results that were found wrong stay: only who has the program can tell whether they are
    of a candidate that is kept.

    Raises:
        RecordError: ``keep`` is less than 1.
    """
    if keep < 1:
        raise RecordError(f"cannot prune to the best {keep}", hint="keep at least one")
    everything = list(records)
    kept: set[int] = set()
    for group in comparable(everything).values():
        ranked = [record for _, record in rank(group)]
        firsts = {record.variant: record for record in reversed(ranked)}
        kept |= {id(record) for record in (*ranked[:keep], *firsts.values())}
        if len({record.by_name for record in group}) > 1:
            kept |= {id(record) for record in group if is_wrong(record.result)}
    return tuple(record for record in everything if id(record) in kept)


def read_all(logs: Sequence[AnyLog]) -> RecordSet:
    """The records of several logs, one after another.

    Raises:
        RecordError: one of them does not exist, cannot be read, or has lines but no record: it is
            no log, or one of a newer release.
    """
    records: list[Record] = []
    warnings: list[str] = []
    for store in map(open_store, logs):
        if not store.exists():
            raise RecordError("the log does not exist", store.name, "check the path")
        part = store.read()
        records += part.records
        warnings += part.warnings
    return RecordSet(tuple(records), tuple(warnings))


def check_lossless(logs: Sequence[AnyLog], out: AnyLog) -> None:
    """Raise RecordError where ``out`` is a database with records that ``logs`` do not give it.

    A file is replaced by who names it, see ``spared``; a database is shared.

    Raises:
        RecordError: see above.
    """
    store = open_store(out)
    given = store.name in [open_store(log).name for log in logs]
    if not given and not isinstance(store, RecordLog) and store.state():
        raise RecordError(
            "the store has records of its own, which would be lost",
            store.name,
            "add to them: autosched records import LOG --into URL",
        )


def spared(out: AnyLog, given: Iterable[Record]) -> Path | None:
    """A copy of the file ``out``, which is about to be replaced by some of the records ``given``.

    None where each of its records is among them: nothing is lost then.

    Raises:
        RecordError: it is no log, cannot be read, or cannot be copied.
    """
    store = open_store(out)
    if not isinstance(store, RecordLog) or not store.exists():
        return None
    known = {whole_text(record) for record in given}
    if all(whole_text(record) in known for record in store.read().records):
        return None
    return backed_up(store.path)


def merge(
    logs: Sequence[AnyLog],
    out: AnyLog,
    keep: int | None = None,
) -> RecordSet:
    """Write the records of ``logs`` to ``out``, without repetitions; returns what was written.

    ``keep``: only the best so many, see ``prune``.  ``out`` is replaced as a whole and may
    be one of ``logs``; on an error it stays as it was.  A file with records that ``logs`` do not
    have is kept under another name, which a warning says.

    Raises:
        RecordError: a log cannot be read; ``out`` cannot be written, or is a database with records
            that would be lost.
    """
    check_lossless(logs, out)
    store = open_store(out)
    own = None
    if store.name in [open_store(log).name for log in logs] and store.exists():
        own = store.read().records  # what others add from now on stays
    merged = read_all(logs)
    records = unique(merged.records)
    if keep is not None:
        records = prune(records, keep)
    copy = spared(out, merged.records)
    # Without a copy all that was there is among the records that were read: the rest is newer.
    store.replace(records, merged.records if copy is None else own)
    told = () if copy is None else (f"{store.name} had other records: what it was is in {copy}",)
    return RecordSet(records, (*merged.warnings, *told))

"""Several logs into one, and logs cut down to what is worth keeping."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from autosched.measure.result import is_wrong
from autosched.records.best import comparable, rank
from autosched.records.errors import RecordError
from autosched.records.log import RecordLog, check_log
from autosched.records.reading import RecordSet
from autosched.records.record import Record, to_json
from autosched.system.replaced_file import replaced_file


def unique(records: Iterable[Record]) -> tuple[Record, ...]:
    """Records without exact repetitions, in order of first appearance."""
    seen: dict[str, Record] = {}
    for record in records:
        seen.setdefault(json.dumps(to_json(record), sort_keys=True), record)
    return tuple(seen.values())


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


def read_all(paths: Sequence[str | os.PathLike[str]]) -> RecordSet:
    """The records of several logs, one after another.

    Raises:
        RecordError: one of the files does not exist, cannot be read, or has lines but no record:
            it is no log, or one of a newer release.
    """
    records: list[Record] = []
    warnings: list[str] = []
    for path in paths:
        if not Path(path).exists():
            raise RecordError("the log does not exist", str(path))
        part = RecordLog(path).read()
        records += part.records
        warnings += part.warnings
    return RecordSet(tuple(records), tuple(warnings))


def merge(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    keep: int | None = None,
) -> RecordSet:
    """Write the records of ``paths`` to ``out``, without repetitions; returns what was written.

    ``keep``: only the best so many, see ``prune``.  ``out`` is replaced as a whole and may
    be one of ``paths``; on an error it stays as it was.
    """
    merged = read_all(paths)
    records = unique(merged.records)
    if keep is not None:
        records = prune(records, keep)
    replace_log(records, out)
    return RecordSet(records, merged.warnings)


def replace_log(records: Iterable[Record], out: str | os.PathLike[str]) -> None:
    """Write records to a log that is replaced as a whole; on an error it stays as it was.

    Raises:
        RecordError: the file cannot be written, or is something else than a log.
    """
    check_log(Path(out))
    try:
        with replaced_file(Path(out)) as partial:
            partial.parent.mkdir(parents=True, exist_ok=True)
            partial.touch()  # no record at all is an empty log
            RecordLog(partial).append(records)
    except OSError as error:
        raise RecordError(f"the log cannot be written: {error.strerror}", str(out)) from error

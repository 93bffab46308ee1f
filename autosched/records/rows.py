"""Records as flat rows, for CSV files and data frames."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TextIO

from autosched.measure.result import Timing
from autosched.records.errors import RecordError
from autosched.records.record import Record
from autosched.records.structure import structure
from sketch.replaced_file import whole_output

COLUMNS: Final = (
    "task", "name", "flops", "arch", "threads", "variant", "sketch", "schedule", "phase", "trial",
    "predicted", "best_s", "median_s", "gflops", "samples", "build_s", "cache_state", "error",
    "failure_stage", "failure_kind", "failure_message", "seed", "time",
)  # fmt: skip


def row_of(record: Record) -> dict[str, Any]:
    """One record with the names of ``COLUMNS``, then each decision as ``decision:NAME``."""
    result = record.result
    values: dict[str, Any] = dict.fromkeys(COLUMNS)
    values.update(
        task=record.task, arch=record.target.arch, threads=record.target.threads,
        variant=record.variant, phase=record.phase, seed=record.seed, time=record.time,
        sketch=record.sketch_key, schedule=structure(record), trial=record.trial,
        predicted=record.predicted,
    )  # fmt: skip
    if record.title is not None:
        values.update(name=record.title.text, flops=record.title.flops)
    if isinstance(result, Timing):
        values.update(
            best_s=result.best, median_s=result.median, samples=len(result.seconds),
            cache_state=result.cache_state, error=result.error, build_s=result.build_s,
        )  # fmt: skip
        if record.title is not None:
            values["gflops"] = record.title.flops / result.median / 1e9
    else:
        values.update(
            failure_stage=result.stage, failure_kind=result.kind, failure_message=result.message
        )
    values.update({f"decision:{name}": value for name, value in record.decisions.items()})
    return values


def write_csv(records: Iterable[Record], path: str | os.PathLike[str]) -> None:
    """Write a table to a file, see ``print_csv``; raises RecordError when that fails."""
    try:
        with (
            whole_output(Path(path)) as file,
            file.open("w", newline="", encoding="utf-8") as stream,
        ):
            print_csv(records, stream)
    except OSError as error:
        raise RecordError(f"the table cannot be written: {error.strerror}", str(path)) from error


def print_csv(records: Iterable[Record], stream: TextIO) -> None:
    """Write a table with a header; decisions that a record does not have stay empty."""
    rows = [row_of(record) for record in records]
    header = list(dict.fromkeys([*COLUMNS, *(name for row in rows for name in row)]))
    writer = csv.DictWriter(stream, header, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)

"""A corpus as one file: a NumPy archive (``.npz``) of numbers and JSON text, without pickles.

    format      int64, 1
    tasks       JSON: [[key, program, [[origin, network, weight], ...]], ...]
    targets     JSON: [target, ...]
    steps       JSON: every step once
    sketches    JSON: [[task, variant, [step, ...], [decision, ...]], ...], steps by their number
    sketch      [P] sketch of each program, by its number
    target      [P] machine, by its number
    values      the values of the decisions, program after program
    median_s    float32 [P] seconds of a run; NaN: it failed
    best_s      float32 [P]
    samples     uint8 [P] timed samples
    failed      uint8 [P] 0, or one more than the place of the stage of the failure
    searched    bool [P] whether a search proposed it, else chance

JSON stands as its UTF-8 bytes.  Whole numbers are as narrow as the largest of them allows.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.measure.result import STAGES
from autosched.records.errors import RecordError
from sketch.errors import TargetError
from sketch.replaced_file import check_replaceable, locked_folder, replaced_file
from sketch.target.target import Target

if TYPE_CHECKING:
    from autosched.records.corpus import Corpus

FORMAT: Final = 1
_UNREADABLE: Final = (
    ValueError, KeyError, TypeError, IndexError, EOFError, TargetError, zipfile.BadZipFile,
    zlib.error, RuntimeError, AttributeError,
)  # fmt: skip
_MOST_SAMPLES: Final = 255
_Arrays = Mapping[str, NDArray[Any]]


def write_corpus(corpus: Corpus, path: Path) -> None:
    """Write a corpus; whoever reads meanwhile, or after a kill, sees the old one.

    Raises:
        RecordError: it cannot be written.
    """
    with _as_record_error(path), replaced_file(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **_arrays(corpus))


def check_corpus(path: Path) -> None:
    """Raise RecordError where a corpus could not be written."""
    with _as_record_error(path):
        check_replaceable(path)


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """No other process reads and writes a corpus of that folder in such a block meanwhile.

    Raises:
        RecordError: the folder cannot be opened.
    """
    with _as_record_error(path), locked_folder(path):
        yield


@contextmanager
def _as_record_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecordError(f"the corpus cannot be written: {error.strerror}", str(path)) from error


def read_corpus(path: Path) -> Corpus:
    """Read what ``write_corpus`` wrote.

    Raises:
        RecordError: no such file, or it is no corpus, damaged, or of a newer release.
    """
    try:
        if path.is_file() and not zipfile.is_zipfile(path):  # NumPy would try a pickle
            raise ValueError("it is no archive")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        version = int(arrays["format"])
        if version <= FORMAT:
            return _corpus(arrays)
    except OSError as error:
        raise RecordError(
            f"the corpus cannot be read: {error.strerror}", str(path), "check the path"
        ) from error
    except _UNREADABLE as error:
        raise RecordError(
            f"not a corpus, or damaged: {error}",
            str(path),
            "give a file of `autosched costmodel collect`",
        ) from error
    raise RecordError(
        f"corpus format {version} is newer than {FORMAT}, which this release reads",
        str(path),
        "update autosched",
    )


def _arrays(corpus: Corpus) -> dict[str, Any]:
    programs = corpus.programs
    steps = {step: n for n, step in enumerate(_distinct(corpus))}
    tasks = [
        [task.key, task.program, [[o.text, o.network, o.weight] for o in task.origins]]
        for task in corpus.tasks.values()
    ]
    sketches = [
        [s.task, s.variant, [steps[step] for step in s.steps], s.decisions] for s in corpus.sketches
    ]
    return {
        "format": np.array(FORMAT),
        "tasks": _text(tasks),
        "targets": _text([target.to_json() for target in corpus.targets]),
        "steps": _text([json.loads(step) for step in steps]),
        "sketches": _text(sketches),
        "sketch": _narrow([p.sketch for p in programs]),
        "target": _narrow([p.target for p in programs]),
        "values": _narrow([value for p in programs for value in p.values]),
        "median_s": np.array([p.median_s for p in programs], np.float32),
        "best_s": np.array([p.best_s for p in programs], np.float32),
        "samples": np.array([min(p.samples, _MOST_SAMPLES) for p in programs], np.uint8),
        "failed": np.array([p.failed for p in programs], np.uint8),
        "searched": np.array([p.searched for p in programs], np.bool_),
    }


def _distinct(corpus: Corpus) -> dict[str, None]:
    return dict.fromkeys(step for sketch in corpus.sketches for step in sketch.steps)


def _text(value: Any) -> NDArray[np.uint8]:
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return np.frombuffer(text.encode(), np.uint8)


def _narrow(values: Sequence[int]) -> NDArray[Any]:
    wide = np.array(values, np.int64)
    return wide.astype(np.min_scalar_type(int(np.abs(wide).max(initial=0)) * -2 - 1))


def _corpus(arrays: _Arrays) -> Corpus:
    from autosched.records.corpus import Corpus, CorpusTask, MeasuredProgram, Origin, SketchEntry

    def read(name: str) -> list[Any]:
        found = json.loads(arrays[name].tobytes())
        if not isinstance(found, list):
            raise ValueError(f"{name} is no list")
        return found

    steps = [json.dumps(step, separators=(",", ":")) for step in read("steps")]
    tasks = [
        CorpusTask(key, program, tuple(Origin(*origin) for origin in origins))
        for key, program, origins in read("tasks")
    ]
    sketches = [
        SketchEntry(task, variant, tuple(steps[n] for n in used), tuple(decisions))
        for task, variant, used, decisions in read("sketches")
    ]
    known = {task.key: task for task in tasks}
    targets = [Target.from_json(target) for target in read("targets")]
    count = len(arrays["sketch"])
    _check(arrays, count, len(sketches), len(targets))
    if not all(sketch.task in known for sketch in sketches):
        raise ValueError("a sketch is of no task")
    lengths = [len(sketches[n].decisions) for n in arrays["sketch"].tolist()]
    ends = np.cumsum([0, *lengths]).tolist()
    values = arrays["values"].tolist()
    if len(values) != ends[-1]:
        raise ValueError(f"{len(values)} values for {ends[-1]} decisions")
    columns = (arrays[name].tolist() for name in _COLUMNS)
    programs = [
        MeasuredProgram(sketch, target, tuple(values[ends[n] : ends[n + 1]]), *rest)
        for n, (sketch, target, *rest) in enumerate(zip(*columns, strict=True))
    ]
    return Corpus(known, targets, sketches, programs)


_COLUMNS: Final = ("sketch", "target", "median_s", "best_s", "samples", "failed", "searched")


def _check(arrays: _Arrays, count: int, sketches: int, targets: int) -> None:
    """Raise ValueError unless all columns have one length and every number refers to something."""
    rules: dict[str, Callable[[NDArray[Any]], NDArray[np.bool_]]] = {
        "sketch": lambda column: (column >= 0) & (column < sketches),
        "target": lambda column: (column >= 0) & (column < targets),
        "failed": lambda column: column <= len(STAGES),
        "median_s": lambda column: (column > 0) | (arrays["failed"] > 0),
    }
    for name in _COLUMNS:
        column = arrays[name]
        if column.shape != (count,):
            raise ValueError(f"column {name} has the shape {column.shape}")
        if name in rules and not rules[name](column).all():
            raise ValueError(f"column {name} has a value out of range")

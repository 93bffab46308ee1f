"""Measured programs with their features, grouped by task."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.extra_feature import check_version, feature_version, listed
from costmodel.feature_table import FEATURE_COUNT, FEATURE_INDEX, FEATURE_NAMES
from costmodel.features import Features
from sketch.replaced_file import whole_output

# A failed program ranks below every program of its task that ran.  How slow it "is" means nothing,
# and a large number would only draw splits away from the programs that matter; so it stands just
# behind the slowest success, and clearly behind the best where all successes are alike.
FAILURE_OVER_WORST = 2.0
FAILURE_OVER_BEST = 10.0
# What NumPy and zip files raise for a file that is none of theirs, or damaged.
_UNREADABLE = (
    OSError, ValueError, KeyError, TypeError, IndexError, EOFError, RuntimeError, AttributeError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A dataset as arrays: N programs, R rows (one per statement of a program).

    Attributes:
        rows: float32 [R, F].
        offsets: int64 [N + 1], program p owns ``rows[offsets[p]:offsets[p + 1]]`` (at least one).
        groups: int64 [N], index of the program's task.
        seconds: float64 [N], NaN where the program failed.
        trials: int64 [N], number of the program among those of its task, as they were measured.
        extra: names of the extra features, the last columns of ``rows``.
    """

    rows: NDArray[np.float32]
    offsets: NDArray[np.int64]
    groups: NDArray[np.int64]
    seconds: NDArray[np.float64]
    trials: NDArray[np.int64]
    extra: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of the F features: those of the table, then the extra ones."""
        return (*FEATURE_NAMES, *self.extra)

    def program_of_row(self) -> NDArray[np.int64]:
        """[R]: the program that a row belongs to."""
        return np.repeat(np.arange(len(self.seconds)), np.diff(self.offsets))

    def recent(self, count: int) -> NDArray[np.int64]:
        """Ascending indices of about ``count`` programs: half of them the newest, the others spread
        over all before, and the best of each task, which the others are compared with.
        """
        older = len(self.seconds) - count // 2
        spread = np.linspace(0, older - 1, count - count // 2).astype(np.int64)
        times = np.where(np.isfinite(self.seconds), self.seconds, np.inf)
        order = np.lexsort((times, self.groups))
        _, firsts = np.unique(self.groups[order], return_index=True)
        newest = np.arange(older, len(self.seconds))
        return np.unique(np.concatenate([spread, newest, order[firsts]]))

    def take(self, indices: NDArray[np.int64]) -> Table:
        """Some of the programs, in the order given."""
        lengths = np.diff(self.offsets)[indices]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        rows = self.rows[np.repeat(self.offsets[indices], lengths) + within]
        columns = self.groups[indices], self.seconds[indices], self.trials[indices]
        return Table(rows, offsets, *columns, self.extra)

    def first_trials(self, group: int, count: int) -> NDArray[np.int64]:
        """Indices of the programs of a task that were measured first, ``count`` at most."""
        members = np.flatnonzero(self.groups == group)
        return members[np.argsort(self.trials[members], kind="stable")][:count]

    def comparable(self) -> NDArray[np.bool_]:
        """[N]: whether any program of the task succeeded; else nothing says how they rank."""
        successes = np.bincount(self.groups, np.isfinite(self.seconds))
        return successes[self.groups] > 0

    def relative_times(self) -> NDArray[np.float64]:
        """[N]: time over the best time of its task, >= 1; failures get a finite slow value."""
        relative = np.full(len(self.seconds), FAILURE_OVER_BEST)
        for group in np.unique(self.groups):
            members = self.groups == group
            seconds = self.seconds[members]
            good = np.isfinite(seconds)
            if not good.any():
                continue
            times = seconds / seconds[good].min()
            slow = max(FAILURE_OVER_BEST, FAILURE_OVER_WORST * float(times[good].max()))
            relative[members] = np.where(good, times, slow)
        return relative


@dataclass(slots=True, eq=False)
class Dataset:
    """An append-only collection of measured programs.

    Appending is cheap; ``table()`` concatenates, and the result is kept until the next append.
    """

    _tasks: list[str] = field(default_factory=list)
    _rows: list[NDArray[np.float32]] = field(default_factory=list)
    _lengths: list[NDArray[np.int64]] = field(default_factory=list)
    _groups: list[NDArray[np.int64]] = field(default_factory=list)
    _seconds: list[NDArray[np.float64]] = field(default_factory=list)
    _trials: list[NDArray[np.int64]] = field(default_factory=list)
    _next: dict[str, int] = field(default_factory=dict)  # trial numbers after all that are known
    _extra: tuple[str, ...] | None = None
    _table: Table | None = None

    @property
    def tasks(self) -> tuple[str, ...]:
        """Task keys; a program's group is an index into them."""
        return tuple(self._tasks)

    def __len__(self) -> int:
        """Programs."""
        return sum(len(seconds) for seconds in self._seconds)

    def scale(self, task: str, factor: float) -> None:
        """Multiply the times of a task's programs: it became known that the machine was slower."""
        if task in self._tasks:
            group = self._tasks.index(task)
            for number, (groups, seconds) in enumerate(
                zip(self._groups, self._seconds, strict=True)
            ):
                self._seconds[number] = np.where(groups == group, seconds * factor, seconds)
            self._table = None

    def append(
        self,
        task: str,
        features: Features,
        seconds: Sequence[float | None] | NDArray[np.float64],
        trials: Sequence[int] | None = None,
    ) -> None:
        """Add programs of one task.

        Args:
            task: the task's key.
            features: of the P programs.
            seconds: [P], one time each; None or NaN for a program that failed.
            trials: [P], numbers of the programs among those of the task, as they were measured;
                None: after all that were appended before.

        Raises:
            CostModelError: not one time, or not one number, per program, a time that is not
                positive, or other extra features than the programs before.
        """
        if self._extra not in (None, features.extra):
            raise CostModelError(
                f"programs with {listed(features.extra)}, before there were "
                f"{listed(self._extra or ())}",
                f"task {task}",
            )
        times = np.array([np.nan if s is None else float(s) for s in seconds], dtype=np.float64)
        if len(times) != features.count:
            raise CostModelError(
                f"{len(times)} times for {features.count} programs", f"task {task}"
            )
        if np.any(times <= 0) or np.any(np.isinf(times)):
            raise CostModelError(
                f"times must be positive, got {times}",
                f"task {task}",
                "use None for a program that failed",
            )
        numbers = self._numbers(task, features.count, trials)
        self._extra = features.extra
        lengths = np.full(features.count, len(features.statements), dtype=np.int64)
        self._extend(task, features.rows(), lengths, times, numbers)

    def _numbers(self, task: str, count: int, trials: Sequence[int] | None) -> NDArray[np.int64]:
        if trials is None:
            return self._next.get(task, 0) + np.arange(count)
        if len(trials) != count:
            raise CostModelError(
                f"{len(trials)} trial numbers for {count} programs", f"task {task}"
            )
        return np.asarray(trials, dtype=np.int64)

    def _extend(
        self,
        task: str,
        rows: NDArray[np.float32],
        lengths: NDArray[np.int64],
        seconds: NDArray[np.float64],
        trials: NDArray[np.int64],
    ) -> None:
        if task not in self._tasks:
            self._tasks.append(task)
        self._rows.append(rows)
        self._lengths.append(lengths)
        self._groups.append(np.full(len(seconds), self._tasks.index(task), dtype=np.int64))
        self._seconds.append(seconds)
        self._trials.append(trials)
        self._next[task] = max(self._next.get(task, 0), int(trials.max(initial=-1)) + 1)
        self._table = None

    def table(self) -> Table:
        """All programs as arrays, in the order of appending."""
        if self._table is None:
            extra = self._extra or ()
            width = FEATURE_COUNT + len(extra)
            lengths = np.concatenate([np.zeros(1, np.int64), *self._lengths])
            self._table = Table(
                np.concatenate([np.zeros((0, width), np.float32), *self._rows]),
                np.cumsum(lengths),
                np.concatenate([np.zeros(0, np.int64), *self._groups]),
                np.concatenate([np.zeros(0, np.float64), *self._seconds]),
                np.concatenate([np.zeros(0, np.int64), *self._trials]),
                extra,
            )
        return self._table

    def clear_feature(self, name: str) -> None:
        """Make an extra feature 0 in all programs, as if nobody had ever computed it."""
        if name in (self._extra or ()):
            place = FEATURE_COUNT + (self._extra or ()).index(name)
            self._rows = [rows.copy() for rows in self._rows]
            for rows in self._rows:
                rows[:, place] = 0.0
            self._table = None

    def take(self, indices: NDArray[np.int64]) -> Dataset:
        """A dataset of some of the programs, in the order given."""
        table, result = self.table(), Dataset(_extra=self._extra)
        for index in indices:
            start, stop = int(table.offsets[index]), int(table.offsets[index + 1])
            result._extend(
                self._tasks[int(table.groups[index])],
                table.rows[start:stop],
                np.array([stop - start], dtype=np.int64),
                table.seconds[[index]],
                table.trials[[index]],
            )
        return result

    def plain(self) -> Dataset:
        """The same programs without extra features."""
        if not self._extra:
            return self
        rows = [rows[:, :FEATURE_COUNT] for rows in self._rows]
        columns = self._lengths[:], self._groups[:], self._seconds[:], self._trials[:]
        return Dataset(self._tasks[:], rows, *columns, self._next.copy(), ())

    def drafts(self) -> NDArray[np.float64]:
        """[N]: the draft model's seconds of every program."""
        table = self.table()
        if not len(table.seconds):
            return np.zeros(0)
        seconds = table.rows[:, FEATURE_INDEX["draft_seconds"]].astype(np.float64)
        return np.add.reduceat(seconds, table.offsets[:-1])

    def without(self, tasks: Collection[str]) -> Dataset:
        """A dataset of the programs of all other tasks."""
        left_out = np.array([task in tasks for task in self._tasks], dtype=np.bool_)
        return self.take(np.flatnonzero(~left_out[self.table().groups]))

    def save(self, path: Path) -> None:
        """Write everything to one ``.npz`` file; on an error what was there stays."""
        table = self.table()
        with whole_output(path) as partial, partial.open("wb") as file:
            np.savez_compressed(
                file, version=np.array(feature_version(table.extra)),
                tasks=np.array(self._tasks, dtype=str), rows=table.rows,
                offsets=table.offsets, groups=table.groups, seconds=table.seconds,
                trials=table.trials, extra=np.array(table.extra, dtype=str),
            )  # fmt: skip

    @classmethod
    def load(cls, path: Path) -> Dataset:
        """Read what ``save`` wrote, with the extra features it was made with.

        Raises:
            CostModelError: not such a file, or made with another feature table.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                data = {name: file[name] for name in file.files}
            version, tasks = str(data["version"]), [str(task) for task in data["tasks"]]
            extra = tuple(str(name) for name in data.get("extra", ()))
            check_version(version, extra, str(path), "extract the features again from the records")
            groups = data["groups"]
            trials = data.get("trials", _in_order(groups))  # files of before have none
            table = Table(data["rows"], data["offsets"], groups, data["seconds"], trials, extra)
            _check_consistent(table, tasks)
            following = np.zeros(len(tasks), dtype=np.int64)
            np.maximum.at(following, table.groups, table.trials + 1)
        except _UNREADABLE as error:
            raise CostModelError(f"not a dataset: {error}", str(path)) from error
        return cls(
            tasks, [table.rows], [np.diff(table.offsets)], [table.groups], [table.seconds],
            [table.trials], dict(zip(tasks, following.tolist(), strict=True)), extra,
        )  # fmt: skip


def _in_order(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """[N]: numbers of programs that are in the order in which each task's were measured."""
    trials = np.zeros(len(groups), dtype=np.int64)
    for group in np.unique(groups):
        members = groups == group
        trials[members] = np.arange(members.sum())
    return trials


def _check_consistent(table: Table, tasks: Sequence[str]) -> None:
    """Raise ValueError where arrays of a file do not fit together."""
    count, offsets, seconds = len(table.groups), table.offsets, table.seconds
    for fits, what in (
        (
            table.seconds.shape == table.trials.shape == table.groups.shape == (count,)
            and offsets.shape == (count + 1,),
            "not one time, trial and group of rows a program",
        ),
        (table.rows.shape == (offsets[-1], len(table.names)), "not the rows of the programs"),
        (offsets[0] == 0 and bool(np.all(np.diff(offsets) > 0)), "programs without rows"),
        (
            all(array.dtype.kind == "i" for array in (offsets, table.groups, table.trials)),
            "numbers that are no integers",
        ),
        (bool(np.all((table.groups >= 0) & (table.groups < len(tasks)))), "unknown tasks"),
        (len(set(tasks)) == len(tasks), "a task twice"),
        (bool(np.all(np.isnan(seconds) | ((seconds > 0) & np.isfinite(seconds)))), "no times"),
    ):
        if not fits:
            raise ValueError(what)

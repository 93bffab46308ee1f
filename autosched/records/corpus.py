"""A corpus: measured programs of many tasks, for cost models that learn before anything is tuned.

It holds tasks (as programs), steps, values and times, and never features: those are extracted again
whenever their table changes.  ``corpus_file`` says how it is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autosched.measure.result import STAGES, Failure, Timing
from autosched.records.core_key import core_key
from autosched.records.errors import RecordError
from autosched.records.identity import compatible
from autosched.records.record import Record
from autosched.system.numbers import counted
from autosched.system.optional_packages import data_frame
from autosched.tasks.spec import TaskSpec
from sketch.dag.dag_json import dag_from_json, dag_to_json
from sketch.errors import ExpressionError

if TYPE_CHECKING:
    from sketch.dag.dag import ComputeDAG
    from sketch.target.target import Target

# What a failure says is of no use to a model: only its stage is kept.
_FAILED: Final = "Failed"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a task occurs.

    Attributes:
        text: for people: ``resnet-18 batch=1 image=224``, ``C2D(1, 56, 56, ...)``, ``random 7``.
        network: of the zoo, by its name; empty where it is of none.
        weight: occurrences there.
    """

    text: str
    network: str = ""
    weight: float = 1.0


@dataclass(frozen=True)
class CorpusTask:
    """A task of a corpus.

    Attributes:
        key: of the task.
        program: its reference, see ``sketch.dag.dag_json``.
        origins: where it occurs.
    """

    key: str
    program: Mapping[str, Any]
    origins: tuple[Origin, ...]

    @staticmethod
    def of(task: TaskSpec, origins: Sequence[Origin]) -> CorpusTask:
        """Of a task to be measured."""
        return CorpusTask(task.key, dag_to_json(task.dag), tuple(origins))

    @cached_property
    def dag(self) -> ComputeDAG:
        """The program again.

        Raises:
            RecordError: it is damaged: its key is another.
        """
        try:
            dag = dag_from_json(self.program)
        except ExpressionError as error:
            raise RecordError(str(error), f"task {self.key} of a corpus") from error
        if dag.key != self.key:
            raise RecordError(f"its program is {dag.key}", f"task {self.key} of a corpus")
        return dag

    @cached_property
    def core(self) -> str:
        """Equal for tasks that differ in what follows their last reduction; see ``core_key``."""
        return core_key(self.dag)

    def spec(self, target: Target) -> TaskSpec:
        """The task for a machine."""
        return TaskSpec(self.dag, target, self.origins[0].text)


class SketchEntry(NamedTuple):
    """What programs of one structure share: steps as JSON texts, decisions as they are printed."""

    task: str
    variant: str
    steps: tuple[str, ...]
    decisions: tuple[str, ...]


class MeasuredProgram(NamedTuple):
    """A measured program.

    Attributes:
        sketch: index into the corpus' sketches.
        target: index into its targets.
        values: of the decisions.
        median_s, best_s: seconds of a run; NaN where it failed.
        samples: timed, or bursts of a program that had several; one or two of one that was dropped.
        failed: 0, or one more than the place of the failure's stage in ``STAGES``.
        searched: whether a search proposed it; else it was drawn at random.
    """

    sketch: int
    target: int
    values: tuple[int, ...]
    median_s: float
    best_s: float
    samples: int
    failed: int
    searched: bool


@dataclass(frozen=True, slots=True, eq=False)
class ProgramGroup:
    """The programs of one sketch on one machine.

    Attributes:
        task: of them.
        target: the machine.
        first: the record of one of them, which replays to the sketch.
        values: int64 [P, decisions].
        seconds: float64 [P], medians; NaN: failed.
    """

    task: CorpusTask
    target: Target
    first: Record
    values: NDArray[np.int64]
    seconds: NDArray[np.float64]


@dataclass(eq=False)
class Corpus:
    """Tasks, machines and measured programs; grows by ``append``.

    Attributes:
        tasks: by key.
        targets: machines, as records keep them.
        sketches, programs: in the order of their first mention.
    """

    tasks: dict[str, CorpusTask] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    sketches: list[SketchEntry] = field(default_factory=list)
    programs: list[MeasuredProgram] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._places = {sketch: n for n, sketch in enumerate(self.sketches)}
        self._seen = {(p.sketch, p.target, p.values) for p in self.programs}
        self._counts: dict[tuple[str, int], int] = {}
        for program in self.programs:
            self._count(program)

    def __len__(self) -> int:
        """Programs."""
        return len(self.programs)

    def __str__(self) -> str:
        programs = counted(len(self.programs), "program")
        return f"{programs}, {counted(len(self.measured_tasks), 'task')}"

    @property
    def measured_tasks(self) -> tuple[CorpusTask, ...]:
        """The tasks that have a program."""
        keys = dict.fromkeys(key for key, _ in self._counts)
        return tuple(self.tasks[key] for key in keys)

    def count(self, task: str, target: Target) -> int:
        """Programs of a task on machines whose times compare with those of a target."""
        alike = (n for n, known in enumerate(self.targets) if compatible(known, target))
        return sum(self._counts.get((task, number), 0) for number in alike)

    def add_task(self, task: TaskSpec, origins: Sequence[Origin]) -> None:
        """Note a task, or where else a known one occurs."""
        if task.key in self.tasks:
            self._note(replace(self.tasks[task.key], origins=tuple(origins)))
        else:
            self._note(CorpusTask.of(task, origins))

    def append(self, records: Sequence[Record], searched: bool) -> int:
        """Add measured programs of noted tasks, see ``record_of``; returns how many were new.

        ``searched``: whether a search proposed them.
        """
        return sum(self._add(self._program(record, searched)) for record in records)

    def merge(self, other: Corpus) -> int:
        """Add the tasks and programs of another corpus; returns how many programs were new.

        Of a program that both have, this one's times stay.
        """
        for task in other.tasks.values():
            self._note(task)
        targets = [self._target(target) for target in other.targets]
        sketches = [self._sketch(sketch) for sketch in other.sketches]
        return sum(
            self._add(
                program._replace(sketch=sketches[program.sketch], target=targets[program.target])
            )
            for program in other.programs
        )

    def groups(self) -> Iterator[ProgramGroup]:
        """All programs, by sketch and machine."""
        members: dict[tuple[int, int], list[int]] = {}
        for n, program in enumerate(self.programs):
            members.setdefault((program.sketch, program.target), []).append(n)
        for (sketch, target), places in members.items():
            programs = [self.programs[n] for n in places]
            yield ProgramGroup(
                self.tasks[self.sketches[sketch].task],
                self.targets[target],
                self._record(programs[0]),
                np.array([p.values for p in programs], np.int64).reshape(len(programs), -1),
                np.array([p.median_s for p in programs]),
            )

    def records(self, task: str | None = None) -> Iterator[Record]:
        """Programs as the records of a log would have them; of one task, or of all."""
        for program in self.programs:
            if task is None or self.sketches[program.sketch].task == task:
                yield self._record(program)

    def to_pandas(self) -> Any:
        """A pandas DataFrame: one row a program.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        return data_frame([self._row(program) for program in self.programs], _COLUMNS)

    def save(self, path: Path) -> None:
        """Write the corpus to one file, which takes the place of an old one as a whole.

        Raises:
            RecordError: it cannot be written.
        """
        from autosched.records.corpus_file import write_corpus

        write_corpus(self, path)

    @staticmethod
    def load(path: Path) -> Corpus:
        """Read what ``save`` wrote.

        Raises:
            RecordError: no such file, or it is no corpus, damaged, or of a newer release.
        """
        from autosched.records.corpus_file import read_corpus

        return read_corpus(path)

    def _note(self, task: CorpusTask) -> None:
        """Keep a task, or where else a known one occurs."""
        known = self.tasks.setdefault(task.key, task)
        every = tuple(dict.fromkeys((*known.origins, *task.origins)))
        if every != known.origins:
            self.tasks[task.key] = replace(known, origins=every)

    def _add(self, program: MeasuredProgram) -> bool:
        """Whether it is new."""
        mark = program.sketch, program.target, program.values
        if mark in self._seen:
            return False
        self._seen.add(mark)
        self.programs.append(program)
        self._count(program)
        return True

    def _target(self, target: Target) -> int:
        """Its place among the targets, the last one if it is new."""
        if target not in self.targets:
            self.targets.append(target)
        return self.targets.index(target)

    def _sketch(self, sketch: SketchEntry) -> int:
        """Its place among the sketches, the last one if it is new."""
        if sketch not in self._places:
            self._places[sketch] = len(self.sketches)
            self.sketches.append(sketch)
        return self._places[sketch]

    def _count(self, program: MeasuredProgram) -> None:
        place = self.sketches[program.sketch].task, program.target
        self._counts[place] = self._counts.get(place, 0) + 1

    def _program(self, record: Record, searched: bool) -> MeasuredProgram:
        steps = tuple(json.dumps(dict(step), separators=(",", ":")) for step in record.steps)
        sketch = SketchEntry(record.task, record.variant, steps, tuple(record.decisions))
        place = self._sketch(sketch), self._target(record.target)
        values, result = tuple(record.decisions.values()), record.result
        if isinstance(result, Failure):
            failed = 1 + STAGES.index(result.stage)
            return MeasuredProgram(*place, values, np.nan, np.nan, 0, failed, searched)
        count = len(result.seconds)
        return MeasuredProgram(*place, values, result.median, result.best, count, 0, searched)

    def _record(self, program: MeasuredProgram) -> Record:
        sketch = self.sketches[program.sketch]
        failed = STAGES[program.failed - 1] if program.failed else None
        return Record(
            sketch.task,
            self.targets[program.target],
            sketch.variant,
            tuple(json.loads(step) for step in sketch.steps),
            dict(zip(sketch.decisions, program.values, strict=True)),
            Timing((program.median_s,)) if failed is None else Failure(failed, _FAILED, ""),
        )

    def _row(self, program: MeasuredProgram) -> dict[str, Any]:
        sketch, target = self.sketches[program.sketch], self.targets[program.target]
        origin = self.tasks[sketch.task].origins[0]
        cells = (
            sketch.task, origin.text, origin.network, target.arch, target.threads, sketch.variant,
            program.sketch, program.searched, program.median_s, program.best_s, program.samples,
            STAGES[program.failed - 1] if program.failed else "",
            dict(zip(sketch.decisions, program.values, strict=True)),
        )  # fmt: skip
        return dict(zip(_COLUMNS, cells, strict=True))


_COLUMNS: Final = (
    "task", "origin", "network", "arch", "threads", "variant", "sketch", "searched", "median_s",
    "best_s", "samples", "failed", "decisions",
)  # fmt: skip

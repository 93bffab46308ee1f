"""From a corpus back to candidates, and to what cost models learn from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from autosched.records.corpus import Corpus, CorpusTask, ProgramGroup
from autosched.records.identity import identity
from autosched.system.user_warnings import notify
from autosched.tasks.candidate import Candidate
from autosched.tasks.spec import TaskSpec
from costmodel.dataset import Dataset
from costmodel.extract import features_of
from sketch.population.population import Population, from_rows
from sketch.population.uncollected import uncollected
from sketch.target.target import Target


@dataclass(slots=True, eq=False)
class CorpusReplayer:
    """Replays the programs of a corpus, a sketch at a time; counts what this release cannot."""

    _specs: dict[tuple[str, Target], TaskSpec] = field(default_factory=dict)
    _reasons: dict[str, int] = field(default_factory=dict)

    def population(self, group: ProgramGroup) -> Population | None:
        """The programs of a group as rows of their sketch; None where they do not replay."""
        try:
            return self._population(group)
        except Exception as error:  # the boundary to what a file holds, as for logs
            reason = f"{type(error).__name__}: {error}"
            self._reasons[reason] = self._reasons.get(reason, 0) + len(group.seconds)
        return None

    def candidates(self, group: ProgramGroup) -> list[Candidate]:
        """The same as candidates."""
        rows = self.population(group)
        if rows is None:
            return []
        return [Candidate(rows.sketch, rows.row(n)) for n in range(rows.count)]

    def report(self) -> tuple[str, ...]:
        """One line for each reason."""
        return tuple(f"{n} programs do not replay: {text}" for text, n in self._reasons.items())

    def _population(self, group: ProgramGroup) -> Population:
        spec = self._spec(group.task, group.target)
        first = group.first.candidate(spec.variant(group.first.variant).dag, group.target)
        names = tuple(first.values)  # in the order of the record's decisions
        rows = [dict(zip(names, row, strict=True)) for row in group.values.tolist()]
        return from_rows(first.sketch, rows)

    def _spec(self, task: CorpusTask, target: Target) -> TaskSpec:
        place = task.key, target
        if place not in self._specs:
            self._specs[place] = task.spec(target)
        return self._specs[place]


def machine_task(task: CorpusTask, target: Target) -> str:
    """What a dataset calls a task on a machine: times of two machines do not compare."""
    machine = sha256(json.dumps(identity(target).to_json()).encode()).hexdigest()[:16]
    return f"{task.key} {target.arch} {target.threads} {machine}"


def corpus_dataset(corpus: Corpus) -> Dataset:
    """Features and times of all programs of a corpus that replay, failures included.

    A task on two machines is two tasks of the dataset, see ``machine_task``.  Warns of programs
    that do not replay.
    """
    dataset, replayer = Dataset(), CorpusReplayer()
    with uncollected():
        for group, rows in _replayed(corpus, replayer):
            dataset.append(machine_task(group.task, group.target), features_of(rows), group.seconds)
    notify(replayer.report())
    return dataset


def _replayed(
    corpus: Corpus, replayer: CorpusReplayer
) -> Iterator[tuple[ProgramGroup, Population]]:
    for group in corpus.groups():
        rows = replayer.population(group)
        if rows is not None:
            yield group, rows

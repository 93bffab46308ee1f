"""What is known of one task: which rows were asked for, and what the measured ones took."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autosched.measure.result import Failure, MeasureResult
from autosched.tasks.candidate import Candidate
from sketch.population.population import Population, among, from_rows
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch


@dataclass(slots=True, eq=False)
class _SketchMemory:
    """Rows of one sketch: ``keys`` of all that were asked for; successes in ``rows``."""

    sketch: Sketch
    keys: set[int] = field(default_factory=set)
    known: NDArray[np.uint64] | None = None
    rows: list[dict[DecisionId, int]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    trials: int = 0


class Measured:
    """The memory that the policies of one task share.

    Sketches are numbered in the order they become known: those of the task's space first, then
    such as occur only in a log.
    """

    def __init__(self, sketches: Sequence[Sketch]) -> None:
        self._memories = [_SketchMemory(sketch) for sketch in sketches]
        self._index = {sketch.key: n for n, sketch in enumerate(sketches)}

    @property
    def sketches(self) -> tuple[Sketch, ...]:
        """All sketches known."""
        return tuple(memory.sketch for memory in self._memories)

    @property
    def trials(self) -> int:
        """Candidates with a result, failures included."""
        return sum(memory.trials for memory in self._memories)

    @property
    def successes(self) -> int:
        """Candidates that have a time."""
        return sum(len(memory.seconds) for memory in self._memories)

    @property
    def best_s(self) -> float:
        """Best seconds so far; infinite without a success."""
        return float(self.best_of_sketches().min(initial=math.inf))

    def best_of_sketches(self) -> NDArray[np.float64]:
        """[S]: best seconds of each sketch, infinite without a success."""
        return np.array([min(m.seconds, default=math.inf) for m in self._memories])

    def trials_of_sketches(self) -> NDArray[np.int64]:
        """[S]: candidates with a result."""
        return np.array([m.trials for m in self._memories], dtype=np.int64)

    def times_of_variants(self) -> dict[str, list[float]]:
        """Seconds of the successes of each variant."""
        found: dict[str, list[float]] = {}
        for memory in self._memories:
            found.setdefault(memory.sketch.variant, []).extend(memory.seconds)
        return found

    def trials_of_variants(self) -> dict[str, int]:
        """Candidates with a result, by variant."""
        return self._by_variant(lambda memory: memory.trials)

    def asked_of_variants(self) -> dict[str, int]:
        """Candidates that were asked for, with a result or not, by variant."""
        return self._by_variant(lambda memory: len(memory.keys))

    def _by_variant(self, count: Callable[[_SketchMemory], int]) -> dict[str, int]:
        """Sums of what is counted of the sketches of each variant."""
        found: dict[str, int] = {}
        for memory in self._memories:
            variant = memory.sketch.variant
            found[variant] = found.get(variant, 0) + count(memory)
        return found

    def note_asked(self, candidates: Sequence[Candidate]) -> None:
        """Remember candidates, so that they are never proposed again."""
        groups: dict[str, list[Candidate]] = {}
        for candidate in candidates:
            groups.setdefault(candidate.sketch.key, []).append(candidate)
        for members in groups.values():
            memory = self._memory(members[0].sketch)
            memory.keys.update(_row_keys(members))
            memory.known = None

    def tell(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """Remember results; they need not have been asked for."""
        self.note_asked(candidates)
        for candidate, result in zip(candidates, results, strict=True):
            memory = self._memory(candidate.sketch)
            memory.trials += 1
            if not isinstance(result, Failure):
                memory.rows.append({k: int(v) for k, v in candidate.values.items()})
                memory.seconds.append(result.median)

    def correct(self, candidate: Candidate, seconds: float) -> None:
        """Another time of a candidate that has one."""
        memory, (key,) = self._memory(candidate.sketch), _row_keys([candidate])
        rows = (Candidate(candidate.sketch, row) for row in memory.rows)
        place = [_row_keys([row]) for row in rows].index([key])
        memory.seconds[place] = seconds

    def scale(self, factor: float) -> None:
        """Multiply all times."""
        for memory in self._memories:
            memory.seconds = [factor * seconds for seconds in memory.seconds]

    def is_new(self, candidate: Candidate) -> bool:
        """Whether nobody asked for the candidate yet."""
        return self._memory(candidate.sketch).keys.isdisjoint(_row_keys([candidate]))

    def unseen(self, population: Population) -> NDArray[np.bool_]:
        """[P]: rows that nobody asked for yet."""
        memory = self._memory(population.sketch)
        if memory.known is None:
            memory.known = np.array([*memory.keys], dtype=np.uint64)
        return ~among(population.keys(), memory.known)

    def best_rows(self, sketch: Sketch, count: int) -> Population:
        """At most ``count`` measured rows of a sketch, fastest first."""
        memory = self._memory(sketch)
        order = _fastest(memory.seconds)[:count]
        return from_rows(memory.sketch, [memory.rows[n] for n in order])

    def leaders(self, count: int) -> list[tuple[float, Candidate]]:
        """The fastest candidates over all sketches, with their seconds."""
        every = [
            (seconds, Candidate(memory.sketch, row))
            for memory in self._memories
            for seconds, row in zip(memory.seconds, memory.rows, strict=True)
        ]
        return [every[n] for n in _fastest([seconds for seconds, _ in every])[:count]]

    def _memory(self, sketch: Sketch) -> _SketchMemory:
        index = self._index.get(sketch.key)
        if index is None:
            index = self._index[sketch.key] = len(self._memories)
            self._memories.append(_SketchMemory(sketch))
        return self._memories[index]


def _fastest(seconds: Sequence[float]) -> NDArray[np.intp]:
    """Indices by ascending time; of equal times the earlier comes first."""
    return np.argsort(np.array(seconds, dtype=np.float64), kind="stable")


def _row_keys(candidates: Sequence[Candidate]) -> list[int]:
    """Of candidates of one sketch."""
    rows = from_rows(candidates[0].sketch, [candidate.values for candidate in candidates])
    keys: list[int] = rows.keys().tolist()
    return keys

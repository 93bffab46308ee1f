"""Features of populations of a sketch, by a tape that is recorded once for each sketch.

Most tapes become block code, which is small and can be handed to another process.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.extract.assemble import draft_columns, extract, feature_columns
from costmodel.extract.block_code import BlockCode
from costmodel.extract.block_writer import block_code
from costmodel.extract.quantity import Floats
from costmodel.feature_table import FEATURE_COUNT, FEATURE_INDEX
from costmodel.features import Features
from sketch.lang.kept import kept, known_result
from sketch.lower import lower
from sketch.population.population import Population
from sketch.population.tape import Tape, record
from sketch.population.uncollected import uncollected
from sketch.schedule.sketch import Sketch

_DRAFT = "draft_seconds"
# Programs of one replay: the some hundred values it holds should stay in the caches.
_PART = 2048
# More than a batch that is learned from.
_SEARCHED_ROWS = 128


def features_of(population: Population) -> Features:
    """Features of all rows at once.

    Recording costs as much as two extractions, so that it is left until a sketch comes again (its
    drafts count); one of which so many rows are asked is searched and does.
    """
    sketch, count = population.sketch, population.count
    first = next(_uses(sketch)) == 0 and known_result(feature_code, sketch) is None
    if first and count < _SEARCHED_ROWS:
        # Arrays also of one row: what Python's numbers say of that row alone would not be known of
        # any row of a search.
        return extract(lower(sketch, population.columns()), count, sketch.dag, sketch.target)
    code = feature_code(sketch)
    return _recorded(sketch).features(population) if code is None else code.features(population)


def draft_seconds(population: Population, once: bool = False) -> Floats:
    """The draft model's time of each row: ranks programs before there is any data.

    ``once``: hardly anything else will be asked of the sketch, so that recording would not pay.

    Returns:
        [P] seconds of a nominal machine: they rank, they are no prediction.
    """
    if not once:
        next(_uses(population.sketch))
        code = draft_code(population.sketch)
        return _replayed(population) if code is None else code.draft_seconds(population)
    sketch, total = population.sketch, np.zeros(population.count)
    with uncollected():
        nest = lower(sketch, population.columns())
        for seconds in draft_columns(nest, np.arange(population.count), sketch.target):
            total += seconds
    return total


@dataclass(frozen=True, slots=True, eq=False)
class FeatureCode:
    """What turns the decisions of any population of one sketch into features.

    Attributes:
        statements: names.
        fixed: float32 [S, F, 1], features that are the same for all programs; 0 where they vary.
        code: writes all features that vary.
    """

    statements: tuple[str, ...]
    fixed: NDArray[np.float32]
    code: BlockCode

    def features(self, population: Population) -> Features:
        """Of all rows."""
        statements, width, count = len(self.statements), FEATURE_COUNT, population.count
        values = np.empty((statements, width, count), dtype=np.float32)
        values[:] = self.fixed
        self.code.run(population.values.T, values.reshape(statements * width, count))
        return Features(values, self.statements)


@dataclass(frozen=True, slots=True, eq=False)
class DraftCode:
    """What turns the decisions of any population of one sketch into the draft model's seconds.

    Attributes:
        fixed: float64 [S, 1], of statements that take the same time in all programs; else 0.
        code: writes those that vary.
    """

    fixed: Floats
    code: BlockCode

    def draft_seconds(self, population: Population) -> Floats:
        """[P], the sum over statements."""
        total = np.zeros(population.count)
        seconds = np.empty((len(self.fixed), population.count))
        seconds[:] = self.fixed
        self.code.run(population.values.T, seconds)
        for row in seconds:
            total += row
        return total


@kept
def feature_code(sketch: Sketch) -> FeatureCode | None:
    """The code for the features of a sketch; None where some operation has none."""
    recorded = _recorded(sketch)
    rows = [statement * FEATURE_COUNT + feature for statement, feature in recorded.table_rows]
    with uncollected():
        code = block_code(recorded.tape, rows, np.float32)
    return None if code is None else FeatureCode(recorded.statements, recorded.fixed, code)


@kept
def draft_code(sketch: Sketch) -> DraftCode | None:
    """The code for the draft's seconds of a sketch; None where some operation has none."""
    tape = _drafting(sketch)
    with uncollected():
        code = block_code(tape, range(len(tape.results)), np.float64)
    fixed = [0.0 if result.fixed is None else float(result.fixed) for result in tape.results]
    return None if code is None else DraftCode(np.array(fixed)[:, None], code)


@dataclass(frozen=True, eq=False)
class _Recorded:
    """The tape of a sketch.

    Attributes:
        tape: from 0 .. P-1 and the decisions' columns to the features that are not 0.
        places: (statement, feature name) of each result of ``tape``.
        statements: names.
    """

    tape: Tape
    places: tuple[tuple[int, str], ...]
    statements: tuple[str, ...]

    def features(self, population: Population) -> Features:
        """Of all rows."""
        shape = (len(self.statements), FEATURE_COUNT, population.count)
        values = np.empty(shape, dtype=np.float32)
        values[:] = self.fixed
        for part, columns in _parts(population):
            for place, column in self.tape.varying(columns):
                statement, feature = self.table_rows[place]
                values[statement, feature, part] = column
        return Features(values, self.statements)

    @cached_property
    def fixed(self) -> NDArray[np.float32]:
        """As of ``FeatureCode``."""
        values = np.zeros((len(self.statements), FEATURE_COUNT, 1), dtype=np.float32)
        for (statement, name), result in zip(self.places, self.tape.results, strict=True):
            if result.slot is None:
                values[statement, FEATURE_INDEX[name]] = result.fixed
        return values

    @cached_property
    def table_rows(self) -> tuple[tuple[int, int], ...]:
        """(statement, feature) of each result of ``tape``."""
        return tuple((statement, FEATURE_INDEX[name]) for statement, name in self.places)

    @cached_property
    def drafting(self) -> Tape:
        """The draft's seconds of each statement."""
        return self.tape.only([n for n, (_, name) in enumerate(self.places) if name == _DRAFT])


def _parts(population: Population) -> Iterator[tuple[slice, list[NDArray[Any]]]]:
    """Parts of the population, with the inputs of a tape."""
    for start in range(0, population.count, _PART):
        rows = slice(start, start + _PART)
        columns = np.ascontiguousarray(population.values[rows].T)
        yield rows, [np.arange(columns.shape[1]), *columns]


@kept
def _uses(_: Sketch) -> Iterator[int]:
    """Counts up from 0."""
    return itertools.count()


@kept
def _recorded(sketch: Sketch) -> _Recorded:
    names = [decision.id for decision in sketch.decisions]
    places: list[tuple[int, str]] = []
    statements: list[str] = []

    def extraction(inputs: Sequence[Any]) -> list[Any]:
        programs, *columns = inputs
        nest = lower(sketch, dict(zip(names, columns, strict=True)))
        found = feature_columns(nest, programs, sketch.dag, sketch.target)
        statements.extend(statement.name for statement in found)
        places.extend((n, name) for n, its in enumerate(found.values()) for name in its)
        return [value for its in found.values() for value in its.values()]

    tape = record(extraction, 1 + len(names))
    return _Recorded(tape, tuple(places), tuple(statements))


@kept
def _drafting(sketch: Sketch) -> Tape:
    """From 0 .. P-1 and the decisions' columns to the draft's seconds of each statement.

    Recorded alone where nothing is recorded yet: of many sketches no other feature will be asked.
    """
    recorded = known_result(_recorded, sketch)
    if recorded is not None:
        return recorded.drafting
    names = [decision.id for decision in sketch.decisions]

    def drafts(inputs: Sequence[Any]) -> list[Any]:
        programs, *columns = inputs
        nest = lower(sketch, dict(zip(names, columns, strict=True)))
        return draft_columns(nest, programs, sketch.target)

    return record(drafts, 1 + len(names))


def _replayed(population: Population) -> Floats:
    """[P], the draft's seconds where there is no code for them."""
    total = np.zeros(population.count)
    for rows, columns in _parts(population):
        for of_statement in _drafting(population.sketch).replay(columns):
            total[rows] += of_statement
    return total

"""The space of a task, built in another process, which gives the very same one.

What was found out about its sketches comes along, the code for their features above all: to build
a space and to record its features takes a hundred times as long as to read what comes of it.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.search.space import Space, build_space
from sketch.lang.kept import give_result, known_result
from sketch.population.feasible import FEASIBILITY
from sketch.population.population import Population, nests, register_tiles
from sketch.schedule.sketch import Sketch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from autosched.search.space_options import SpaceOptions
    from autosched.tasks.spec import TaskSpec, Variant
    from sketch.schedule.steps import Step
    from sketch.target.target import Target

BUILT_BY: Final = "autosched.search.space_elsewhere:answer"
"""The reference of ``answer``."""

# What a sketch derives from its program, but for the program: its stages refer to each other.
_DERIVED: Final[tuple[str, ...]] = ("decisions", "unrolled", "unrolled_reductions", "chains", "key")


@dataclass(frozen=True, slots=True)
class _PlainSketch:
    """A sketch without its program.

    Attributes:
        variant: its name.
        steps: of the schedule.
        derived: cached attributes by name.
        results: of ``_kept``; None where they are not known.
    """

    variant: str
    steps: tuple[Step, ...]
    derived: dict[str, Any]
    results: tuple[Any, ...]

    @staticmethod
    def of(sketch: Sketch) -> _PlainSketch:
        derived = {name: sketch.__dict__[name] for name in _DERIVED if name in sketch.__dict__}
        results = tuple([known_result(function, sketch) for function in _kept()])
        return _PlainSketch(sketch.variant, sketch.steps, derived, results)

    def sketch(self, task: TaskSpec) -> Sketch:
        made = Sketch(task.variant(self.variant).dag, self.steps, task.target, self.variant)
        made.__dict__.update(self.derived)
        for function, result in zip(_kept(), self.results, strict=True):
            if result is not None:
                give_result(function, made, result)
        return made


_Answer = tuple[
    list[tuple[_PlainSketch, NDArray[np.int64], NDArray[np.float64]]],
    int,
    list[tuple[_PlainSketch, float]],
]
"""Sketches with samples and drafts, alternatives dropped, sketches cut: see ``Space``."""


def request(task: TaskSpec, options: SpaceOptions) -> bytes | None:
    """What ``answer`` needs; None where only this process can build the space: it may be the only
    one that knows the user's rules.
    """
    if task.rules is not None:
        return None
    return pickle.dumps((task.variants, task.target, options), pickle.HIGHEST_PROTOCOL)


def answer(request: bytes) -> bytes:
    """Build the space that a request is about."""
    from costmodel.extract.recorded import feature_code

    variants: Sequence[Variant]
    target: Target
    options: SpaceOptions
    variants, target, options = pickle.loads(request)
    space = build_space(variants, target, options=options)
    for sketch in space.sketches:
        feature_code(sketch)
    rows = zip(space.sketches, space.samples, space.drafts, strict=True)
    plain: _Answer = (
        [(_PlainSketch.of(sketch), sample.values, drafts) for sketch, sample, drafts in rows],
        space.dropped,
        [(_PlainSketch.of(sketch), seconds) for sketch, seconds in space.cut],
    )
    return pickle.dumps(plain, pickle.HIGHEST_PROTOCOL)


def space_from(task: TaskSpec, answered: bytes) -> Space:
    """The space of a task, as ``answer`` built it."""
    plain: _Answer = pickle.loads(answered)
    kept, dropped, cut = plain
    sketches = tuple([item.sketch(task) for item, _, _ in kept])
    return Space(
        sketches,
        tuple([Population(s, values) for s, (_, values, _) in zip(sketches, kept, strict=True)]),
        tuple([drafts for _, _, drafts in kept]),
        dropped,
        tuple([(item.sketch(task), seconds) for item, seconds in cut]),
    )


def _kept() -> tuple[Callable[[Sketch], Any], ...]:
    """Functions of a sketch whose results need no program."""
    from costmodel.extract.recorded import draft_code, feature_code

    return (nests, register_tiles, *FEASIBILITY, feature_code, draft_code)

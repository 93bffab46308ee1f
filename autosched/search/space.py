"""The space of a task: its sketches, pruned by what the draft model says of random rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from autosched.search.drafts import Drafted, descended, drafted_sketches, prune
from autosched.search.space_options import SpaceOptions
from autosched.system.errors import TaskError
from autosched.system.user_warnings import notify
from autosched.tasks.candidate import Candidate
from sketch.errors import ScheduleError
from sketch.population.population import Population
from sketch.population.uncollected import uncollected
from sketch.schedule.sketch import Sketch
from sketch.target.target import Target

if TYPE_CHECKING:
    from autosched.tasks.spec import TaskSpec, Variant
    from sketch.rules.generate import Generation
    from sketch.rules.rule import SketchRule

_USUAL: Final = SpaceOptions()


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Sketches worth searching, most promising first.

    Attributes:
        sketches: of all variants.
        samples: for each sketch, feasible rows, best draft time first.
        drafts: for each sketch, float64 [rows], draft seconds of its samples, ascending; more than
            the draft's where a row leaves part of the machine idle.
        dropped: alternatives that were never followed up, because there were too many.
        cut: sketches above the cap of the task, with the draft seconds of the best of a few rows;
            ascending; of a variant that has others, none that was kept is slower by them.
    """

    sketches: tuple[Sketch, ...]
    samples: tuple[Population, ...]
    drafts: tuple[NDArray[np.float64], ...]
    dropped: int = 0
    cut: tuple[tuple[Sketch, float], ...] = ()

    def draft_candidate(self) -> Candidate:
        """What to run when nothing was measured."""
        return Candidate(self.sketches[0], self.samples[0].row(0))


# By the task object, as long as it lives.
_spaces: Final[WeakKeyDictionary[TaskSpec, dict[SpaceOptions, Space]]] = WeakKeyDictionary()
_reference_spaces: Final[WeakKeyDictionary[TaskSpec, Space]] = WeakKeyDictionary()


def space_of(task: TaskSpec, options: SpaceOptions = _USUAL) -> Space:
    """The space of a task, built once for each task object and options; see ``build_space``."""
    known = _spaces.setdefault(task, {})
    if options not in known:
        with uncollected():
            known[options] = build_space(task.variants, task.target, task.rules, options=options)
    return known[options]


def is_built(task: TaskSpec, options: SpaceOptions) -> bool:
    """Whether ``space_of`` has nothing to build any more."""
    return options in _spaces.get(task, {})


def give_space(task: TaskSpec, options: SpaceOptions, space: Space) -> None:
    """Let ``space_of`` give a space that was built elsewhere."""
    _spaces.setdefault(task, {})[options] = space


def draft_candidate(task: TaskSpec, quick: bool = False) -> Candidate:
    """What the draft model likes best of the reference, or ``quick`` of a few of its rows.

    What nobody checks is computed as it is written.
    """
    if quick and task not in _reference_spaces:
        reference = task.variants[:1]
        with suppress(TaskError):  # few feasible rows: a quick look may find none
            return build_space(reference, task.target, task.rules, quick).draft_candidate()
    return reference_space(task).draft_candidate()


def reference_space(task: TaskSpec) -> Space:
    """The space of a task's first variant, built once for each task object."""
    if task not in _reference_spaces:
        only = task if len(task.variants) == 1 else task.reference_only()
        _reference_spaces[task] = space_of(only)
    return _reference_spaces[task]


def build_space(
    variants: Sequence[Variant],
    target: Target,
    rules: tuple[SketchRule, ...] | None = None,
    quick: bool = False,
    options: SpaceOptions = _USUAL,
) -> Space:
    """Generate sketches of all variants, score random rows of each, and drop those far behind.

    Sketches of a user's rules that cannot become loops are left out, with a notice, and so are
    variants but the first that such rules do not know.

    Args:
        variants: forms of the task.
        target: the machine.
        rules: see ``sketch.rules.generate``; None: the target's default rules.
        quick: score few rows, where some schedule is wanted soon; nothing should be tuned from such
            a space.
        options: how many sketches; those that a draft of a few rows likes best.

    Raises:
        TaskError: no sketch has a single feasible row.
        LoweringError: no sketch can become loops; names the rule.
        ScheduleError: as LoweringError; or a user's rules have nothing for the first variant.
    """
    usable: list[Drafted] = []
    cut: tuple[tuple[Sketch, float], ...] = ()
    tried = 0
    most = options.most_for(max(len(variant.dag.stages) for variant in variants))
    for choice in _rule_sets(rules, target):
        with uncollected():
            found = _explored(variants, target, choice, rules is not None)
        sketches = [sketch for generation in found for sketch in generation.sketches]
        tried += len(sketches)
        best, cut = _best(sketches, most, options)
        usable = drafted_sketches(best, options, quick)
        if usable:
            break
    else:
        raise TaskError(
            f"none of {tried} sketches has a feasible row",
            f"program {variants[0].dag.key} on {target.kind} {target.arch}",
            "the target's registers, caches or instruction budget are too small",
        )
    kept = prune(usable, options)
    if not quick:
        kept = descended(kept, variants[0].name, options)
    return Space(
        tuple(population.sketch for population, _ in kept),
        tuple(population for population, _ in kept),
        tuple(drafts for _, drafts in kept),
        sum(generation.dropped for generation in found),
        cut,
    )


def _explored(
    variants: Sequence[Variant], target: Target, rules: tuple[SketchRule, ...], of_user: bool
) -> list[Generation]:
    """What the rules make of each variant; ``of_user``: rules may be made for the first one."""
    from sketch.rules.generate import explore

    found = [explore(variants[0].dag, target, rules, variants[0].name)]
    for variant in variants[1:]:
        try:
            found.append(explore(variant.dag, target, rules, variant.name))
        except ScheduleError as error:
            if not of_user:
                raise
            notify([f"variant {variant.name} is not searched: {error}"])
    return found


def _best(
    sketches: Sequence[Sketch], most: int, options: SpaceOptions
) -> tuple[Sequence[Sketch], tuple[tuple[Sketch, float], ...]]:
    """The ``most`` sketches that the draft likes best, in their order, and the others with seconds.

    The best of each variant stays.  Sketches without a feasible row are neither.
    """
    if len(sketches) <= most:
        return sketches, ()
    usable = drafted_sketches(sketches, options, quick=True)
    drafted = [(population.sketch, float(seconds[0])) for population, seconds in usable]
    ranked = sorted(drafted, key=lambda item: item[1])
    firsts = {sketch.variant: sketch for sketch, _ in reversed(ranked)}
    wanted = [*firsts.values(), *(sketch for sketch, _ in ranked)]
    kept = set(list(dict.fromkeys(map(id, wanted)))[: max(most, len(firsts))])
    cut = tuple(item for item in ranked if id(item[0]) not in kept)
    return [sketch for sketch, _ in drafted if id(sketch) in kept], cut


def _rule_sets(
    rules: tuple[SketchRule, ...] | None, target: Target
) -> Iterator[tuple[SketchRule, ...]]:
    """Rules to generate with, the next ones where no sketch has a row that fits the target.

    What is computed inside another stage needs a private buffer, and that may be larger than the
    caches; a nest for each stage always fits.
    """
    from sketch.rules.backend import default_rules
    from sketch.rules.compute_location import ComputeLocation

    wanted = default_rules(target) if rules is None else rules
    yield wanted
    yield tuple(rule for rule in default_rules(target) if not isinstance(rule, ComputeLocation))
    yield default_rules(target)[-1:]

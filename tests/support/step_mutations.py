"""Steps as a faulty rule would make them: those of a real sketch, one or two of them altered."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sketch.nest.loopnest import LoopKind
from sketch.schedule.loop import LoopId
from sketch.schedule.program import Program
from sketch.schedule.sketch import Sketch
from sketch.schedule.stage import StageId
from sketch.schedule.steps import Annotate, ComputeAt, Pack, Reorder, Rfactor, Split, Step

Steps = tuple[Step, ...]


def mutate_steps(sketch: Sketch, rng: random.Random) -> Sketch:
    """A sketch that may be unsound, or have no program at all."""
    steps, program = sketch.steps, sketch.program
    for _ in range(rng.choice((1, 1, 2))):
        steps = rng.choice((_drop, _swap, _insert, _alter, _alter, _alter))(steps, program, rng)
    return replace(sketch, steps=steps)


def _drop(steps: Steps, _: Program, rng: random.Random) -> Steps:
    gone = rng.randrange(len(steps))
    return steps[:gone] + steps[gone + 1 :]


def _swap(steps: Steps, _: Program, rng: random.Random) -> Steps:
    order = list(steps)
    first, second = rng.randrange(len(order)), rng.randrange(len(order))
    order[first], order[second] = order[second], order[first]
    return tuple(order)


def _insert(steps: Steps, program: Program, rng: random.Random) -> Steps:
    """An annotation, an attachment or a split somewhere."""
    stage, target = rng.choice(program.stages), rng.choice(program.stages)
    loop, other = rng.choice(stage.loops()), rng.choice(target.loops())
    new: tuple[Step, ...] = (
        Annotate(stage.id, loop, rng.choice([kind.value for kind in LoopKind])),
        ComputeAt(stage.id, target.id, other),
        Split(stage.id, rng.randrange(len(stage.op.all_axes)), (3, 2)),
    )
    place = rng.choice((len(steps), rng.randrange(len(steps) + 1)))
    return (*steps[:place], rng.choice(new), *steps[place:])


def _alter(steps: Steps, program: Program, rng: random.Random) -> Steps:
    """One step with another field."""
    found = [n for n, step in enumerate(steps) if type(step) in _CHANGES]
    if not found:
        return _insert(steps, program, rng)
    number = rng.choice(found)
    changed = _CHANGES[type(steps[number])](steps[number], program, rng)
    return (*steps[:number], changed, *steps[number + 1 :])


def _loop(program: Program, stage: StageId, rng: random.Random) -> LoopId:
    plan = program.find(stage)
    return LoopId(0, 0) if plan is None else rng.choice(plan.loops())


def _split(step: Split, _: Program, rng: random.Random) -> Step:
    factors = list(step.factors)
    if factors:
        factors[rng.randrange(len(factors))] = rng.choice((1, 2, 3, 7, 64, 0, -1))
    return replace(step, factors=tuple(rng.choice((factors, factors[:-1], [*factors, 2]))))


def _reorder(step: Reorder, _: Program, rng: random.Random) -> Step:
    order = list(step.order)
    if rng.random() < 0.5:
        rng.shuffle(order)
    else:
        first, second = rng.randrange(len(order)), rng.randrange(len(order))
        order[first], order[second] = order[second], order[first]
    return replace(step, order=tuple(order))


def _compute_at(step: ComputeAt, program: Program, rng: random.Random) -> Step:
    target = rng.choice((step.target, rng.choice(program.stages).id))
    return replace(step, target=target, loop=_loop(program, target, rng))


def _annotate(step: Annotate, program: Program, rng: random.Random) -> Step:
    kind = rng.choice([kind.value for kind in LoopKind])
    loop = _loop(program, step.stage, rng)
    return rng.choice((replace(step, loop=loop), replace(step, execution=kind)))


def _pack(step: Pack, program: Program, rng: random.Random) -> Step:
    loops = tuple(_loop(program, step.reader, rng) for _ in range(rng.randrange(3)))
    return rng.choice(
        (
            replace(step, loops=loops),
            replace(step, writer_loops=loops),
            replace(step, dim=rng.randrange(4)),
        )
    )


def _rfactor(step: Rfactor, _: Program, rng: random.Random) -> Step:
    parts = rng.choice((1, 2, 3, 5, 0, 1000))
    return rng.choice((replace(step, parts=parts), replace(step, interleave=not step.interleave)))


_CHANGES: dict[type[Step], Callable[[Any, Program, random.Random], Step]] = {
    Split: _split,
    Reorder: _reorder,
    ComputeAt: _compute_at,
    Annotate: _annotate,
    Pack: _pack,
    Rfactor: _rfactor,
}

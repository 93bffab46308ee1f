"""Replay of steps: from a DAG to the program that they make of it."""

from __future__ import annotations

from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError
from sketch.schedule.loop_steps import (
    annotate,
    block_order,
    compute_at,
    pack,
    reorder,
    shared_tiles,
    split,
    tensorize,
)
from sketch.schedule.program import Program, initial_program
from sketch.schedule.stage_steps import cache_read, cache_write, in_parts, inline
from sketch.schedule.steps import (
    Annotate,
    BlockOrder,
    CacheRead,
    CacheWrite,
    ComputeAt,
    Inline,
    Pack,
    Reorder,
    Rfactor,
    SharedTiles,
    Split,
    SplitReduce,
    Step,
    Tensorize,
)


def apply_step(program: Program, step: Step) -> Program:
    """Apply one step; raises ScheduleError when it does not fit."""
    match step:
        case Inline():
            return inline(program, step)
        case CacheWrite():
            return cache_write(program, step)
        case CacheRead():
            return cache_read(program, step)
        case Rfactor() | SplitReduce():
            return in_parts(program, step)
        case _:
            return _apply_to_loops(program, step)


def _apply_to_loops(
    program: Program,
    step: Split | Reorder | ComputeAt | Annotate | Pack | SharedTiles | BlockOrder | Tensorize,
) -> Program:
    match step:
        case Split():
            return split(program, step)
        case Reorder():
            return reorder(program, step)
        case ComputeAt():
            return compute_at(program, step)
        case Annotate():
            return annotate(program, step)
        case Pack():
            return pack(program, step)
        case SharedTiles():
            return shared_tiles(program, step)
        case BlockOrder():
            return block_order(program, step)
        case Tensorize():
            return tensorize(program, step)
    raise ScheduleError(f"{step!r} is no step")


def replay(dag: ComputeDAG, steps: tuple[Step, ...]) -> Program:
    """Apply ``steps`` one after another to the program of ``dag``."""
    program = initial_program(dag)
    for step in steps:
        program = apply_step(program, step)
    return program

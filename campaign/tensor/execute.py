"""Compiling candidates of a program and running them between unmapped pages."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from autosched.task import Task
from campaign.part import Mark
from campaign.tensor.guarded import Guarded, Side
from campaign.tensor.numbers import Array
from campaign.verdict import Json
from codegen.build import build
from codegen.kernel import BUFFER_ALIGNMENT
from codegen.llvm.jit import load
from codegen.team import Team
from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import numpy_dtype
from sketch.lower import lower
from sketch.lower.packing import preparations
from sketch.population.population import mutate, sample
from sketch.rules.generate import generate
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch
from sketch.target.target import Target

Candidate = tuple[Sketch, Mapping[DecisionId, int]]


class Result(NamedTuple):
    """Outputs by name, and the buffer beside which something was written, if any."""

    outputs: Mapping[str, Array]
    touched: str


def candidates(dag: ComputeDAG, target: Target, case: Json, mark: Mark) -> Iterator[Candidate]:
    """The case's choice of sketches and rows; "default" is what is used without a log."""
    rng = np.random.default_rng(case["rows"]["seed"])
    sketches: tuple[Sketch, ...] = ()
    for choice in case["rows"]["sketches"]:
        mark("schedule")
        if choice == "default":
            candidate = Task(dag, target).candidate()
            yield candidate.sketch, dict(candidate.values)
            continue
        sketches = sketches or _sketches(dag, target, case["rows"].get("variants", False))
        sketch = sketches[choice % len(sketches)]
        population = sample(sketch, 1, rng)
        if rng.random() < 0.5:
            population = mutate(population, rng)
        yield sketch, population.row(0)


def _sketches(dag: ComputeDAG, target: Target, variants: bool) -> tuple[Sketch, ...]:
    """Of the program, or where it has ``variants`` of those."""
    others = Task(dag, target).variants[1:] if variants else ()
    found = [s for other in others for s in generate(other.dag, target, variant=other.name)]
    return tuple(found) or generate(dag, target)


def execute(
    sketch: Sketch,
    row: Mapping[DecisionId, int],
    inputs: Mapping[str, Array],
    side: Side,
    before_call: Callable[[], None],
) -> Result:
    """Compile one candidate and run it; a read or write outside a buffer ends this process."""
    kernel = build(lower(sketch, row), sketch.target)
    layouts = preparations(sketch, row)
    library = load([kernel])
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        library.address(kernel.symbol)
    )
    team = _team(kernel.target.threads)
    with ExitStack() as stack:
        memory: dict[str, Guarded] = {}
        for argument in kernel.arguments:
            dtype: Any = numpy_dtype(argument.dtype)
            block = _guarded(stack, prod(argument.shape) * dtype.itemsize, side)
            memory[argument.name] = block
            if argument.scope != "output":
                given = inputs[argument.name]
                packing = layouts.get(argument.name)
                stored = given if packing is None else packing.apply(given)
                block.array(dtype, argument.shape)[...] = stored.reshape(argument.shape)
                block.read_only()
        size = -(-kernel.workspace_bytes // BUFFER_ALIGNMENT) * BUFFER_ALIGNMENT
        workspace = _guarded(stack, size, side)
        addresses = [memory[a.name].address for a in kernel.arguments]
        table = (ctypes.c_void_p * (len(addresses) + 1))(*addresses, workspace.address)
        before_call()
        function(ctypes.addressof(table), 0 if team is None else team.address)
        outputs = {
            a.name: memory[a.name].array(numpy_dtype(a.dtype), a.shape).copy()
            for a in kernel.arguments
            if a.scope == "output"
        }
        everything = {**memory, "the workspace": workspace}
        touched = next((name for name, block in everything.items() if not block.intact()), "")
    return Result(outputs, touched)


@cache
def _team(threads: int) -> Team | None:
    """The threads of this process, which is forked once for a batch."""
    return Team(threads) if threads > 1 else None


def _guarded(stack: ExitStack, size: int, side: Side) -> Guarded:
    block = Guarded(size, side)
    stack.callback(block.free)
    return block

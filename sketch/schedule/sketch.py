"""A sketch: a compute DAG and the steps that give its schedule everything but the numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError
from sketch.lang.kept import KeepsResults
from sketch.nest.loopnest import LoopKind
from sketch.schedule.decision import Decision, DecisionId, TileChain
from sketch.schedule.labels import decision_label, loop_label
from sketch.schedule.loop import AxisIndex, LoopId
from sketch.schedule.program import Program, StagePlan
from sketch.schedule.replay import replay
from sketch.schedule.stage import StageId
from sketch.schedule.step_json import steps_for_key
from sketch.schedule.steps import BLOCK_ROWS, TILE_COUNTS, TILE_LAYOUTS, Factor, Step
from sketch.schedule.trips import trip_choices_of
from sketch.schedule.walks import NOT_AHEAD, PANEL_AHEAD, WALK_AHEAD, walk_of
from sketch.target.gpu_targets import copies_ahead
from sketch.target.target import Target


@dataclass(frozen=True, eq=False)
class Sketch(KeepsResults):
    """DAG + steps for a target.  The decisions are those that the steps name.

    Attributes:
        variant: name of the algorithm that ``dag`` computes the task by ("direct", ...).
        rules: names of the user's rules that took part in it, for messages.
    """

    dag: ComputeDAG
    steps: tuple[Step, ...]
    target: Target
    variant: str = "direct"
    rules: tuple[str, ...] = ()

    @cached_property
    def program(self) -> Program:
        """The stages after replaying the steps; raises ScheduleError when a step does not fit."""
        return replay(self.dag, self.steps)

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """Open numbers in order of first appearance."""
        choices: dict[DecisionId, tuple[int, ...]] = {}
        stages: dict[DecisionId, StageId] = {}
        for plan in self.program.stages:
            for axis, factors in plan.splits.items():
                for factor in factors:
                    if isinstance(factor, DecisionId):
                        # consumers come later: a number that tiles both is about the consumer
                        stages[factor] = plan.id
                        if factor not in choices:
                            choices[factor] = self._choices(plan, axis, factors, factor)
        for pack in self.program.packs:
            if isinstance(pack.prefetch, DecisionId):
                near = () if walk_of(self.program, pack) is None else (WALK_AHEAD,)
                choices[pack.prefetch] = (NOT_AHEAD, PANEL_AHEAD, *near)
                stages[pack.prefetch] = pack.reader
        for plan in self.program.stages:
            for name, values in (*_tile_choices(plan, self.target), *_block_choices(plan)):
                choices[name] = values
                stages[name] = plan.id
        return tuple(Decision(name, values, stages[name]) for name, values in choices.items())

    def _choices(
        self,
        plan: StagePlan,
        axis: AxisIndex,
        factors: tuple[Factor, ...],
        name: DecisionId,
    ) -> tuple[int, ...]:
        node, trips = plan.op.all_axes[axis], trip_choices_of(self.target)
        unrolled = name in self.unrolled
        extent = -(-node.extent // fixed_product(factors))
        if unrolled and node.kind == "reduce":
            return tuple(c for c in trips.reduce_unroll if c <= extent)
        limit = self.target.registers if unrolled else None
        return trips.tiles(extent, limit)

    @cached_property
    def unrolled(self) -> frozenset[DecisionId]:
        """The decisions that give the trips of unrolled loops."""
        return frozenset(
            factor
            for plan in self.program.stages
            for axis, factors in plan.splits.items()
            for level, factor in enumerate(factors, start=1)
            if isinstance(factor, DecisionId)
            and plan.kinds.get(LoopId(axis, level)) is LoopKind.UNROLLED
        )

    @cached_property
    def unrolled_reductions(self) -> frozenset[DecisionId]:
        """The part of ``unrolled`` whose loops reduce."""
        return frozenset(
            factor
            for plan in self.program.stages
            for axis, factors in plan.splits.items()
            if plan.op.all_axes[axis].kind == "reduce"
            for factor in factors
            if isinstance(factor, DecisionId) and factor in self.unrolled
        )

    @cached_property
    def chains(self) -> tuple[TileChain, ...]:
        """Decisions that tile the same axis, each decision in exactly one chain."""
        column = {decision.id: n for n, decision in enumerate(self.decisions)}
        chains: dict[tuple[int, ...], TileChain] = {}
        for plan in self.program.stages:
            for axis, factors in plan.splits.items():
                levels = tuple(column[f] for f in reversed(factors) if isinstance(f, DecisionId))
                if levels:
                    extent = plan.op.all_axes[axis].extent
                    chains.setdefault(levels, TileChain(extent, fixed_product(factors), levels))
        longest = sorted(chains.values(), key=lambda c: -len(c.columns))
        kept: list[TileChain] = []
        for chain in longest:
            if not any(set(chain.columns) <= set(other.columns) for other in kept):
                kept.append(chain)
        return tuple(kept)

    @cached_property
    def labels(self) -> Mapping[DecisionId, str]:
        """What each decision is called in print, by the names of the program: ``C.i@1``."""
        names = [decision.id for decision in self.decisions]
        return {name: decision_label(name, self.program) for name in names}

    def decision(self, label: str) -> DecisionId:
        """The decision that is printed so; raises ScheduleError when there is none."""
        for name, known in self.labels.items():
            if known == label:
                return name
        raise ScheduleError(
            f"no decision is called {label!r}", hint=f"known: {', '.join(self.labels.values())}"
        )

    @cached_property
    def key(self) -> str:
        """Hash of DAG, steps and variant: 16 hex digits, the same in every process.

        Free of names: programs that differ in names alone have sketches of equal keys.
        """
        steps = list(steps_for_key(self.dag, self.steps))
        text = json.dumps([self.dag.key, self.variant, steps])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        lines = [f"sketch {self.key} ({self.variant}), {len(self.decisions)} decisions"]
        for plan in self.program.stages:
            place = "root" if plan.attach is None else self._place(*plan.attach)
            loops = " ".join(_describe(plan, loop) for loop in plan.loops())
            lines.append(f"  {plan.op.name} [{place}] {loops}")
        for pack in self.program.packs:
            loops = self.program.stage(pack.reader).labels(pack.loops)
            lines.append(f"  pack {self.program.label(pack.tensor)} by {loops}")
        return "\n".join(lines)

    def _place(self, stage: StageId, loop: LoopId) -> str:
        host = self.program.stage(stage)
        return f"at {host.op.name}: {host.labels([loop])}"


def _tile_choices(plan: StagePlan, target: Target) -> Iterator[tuple[DecisionId, tuple[int, ...]]]:
    """Decisions about the tiles of a stage in shared memory; without asynchronous copies, more than
    the next tile would not fit the registers that it goes through.
    """
    tiles = plan.tiles
    if tiles is None:
        return
    if isinstance(tiles.count, DecisionId):
        yield tiles.count, TILE_COUNTS[: None if copies_ahead(target) else 2]
    if isinstance(tiles.layout, DecisionId):
        last = tiles.dim == len(plan.op.axes) - 1
        # threads that walk a row find its pieces wherever it is
        yield tiles.layout, TILE_LAYOUTS[:2] if last else TILE_LAYOUTS


def _block_choices(plan: StagePlan) -> Iterator[tuple[DecisionId, tuple[int, ...]]]:
    """The decision about the order of the blocks of a stage."""
    if plan.blocks is not None and isinstance(plan.blocks.rows, DecisionId):
        yield plan.blocks.rows, BLOCK_ROWS


def _describe(plan: StagePlan, loop: LoopId) -> str:
    kind, label = plan.kinds.get(loop, LoopKind.SERIAL), loop_label(plan.op, loop)
    return label if kind is LoopKind.SERIAL else f"{label}:{kind.value}"


def fixed_product(factors: tuple[Factor, ...]) -> int:
    """Product of the factors that are plain numbers."""
    product = 1
    for factor in factors:
        if isinstance(factor, int):
            product *= factor
    return product


def sketch_from_steps(
    dag: ComputeDAG, steps: tuple[Step, ...], variant: str, target: Target
) -> Sketch:
    """A sketch from recorded steps.

    Args:
        dag: the program.
        steps: in order.
        variant: name of the form of the task that ``dag`` is.
        target: the machine.

    Raises:
        ScheduleError: a step does not fit.
    """
    sketch = Sketch(dag, steps, target, variant)
    _ = sketch.program
    return sketch

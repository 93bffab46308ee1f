"""Transposes through shared memory: read in the order of one array, written in the other's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, Final

from sketch.analysis.access import affine_index, stage_loads
from sketch.lang.expr import Axis, Load
from sketch.lang.tensor import Tensor
from sketch.nest.loopnest import LoopKind, Scope
from sketch.rules.gpu_threads import ScheduleOnThreads, point_loops
from sketch.rules.patterns import vector_axis
from sketch.rules.rule import State, Verdict
from sketch.schedule.loop import LoopId
from sketch.schedule.program import StagePlan
from sketch.schedule.stage_steps import cache_id
from sketch.schedule.steps import Annotate, CacheRead, ComputeAt

# Elements of the last axis from which on a warp writes them in order, and of the axis that lies in
# order in what is read: a sector.
_LEAST_WRITTEN: Final = 32
_LEAST_READ: Final = 8


@dataclass(frozen=True, slots=True)
class TransposeInTiles:
    """Let the threads of a block copy the tile that they read across the order of memory.

    before:  y(i, j) = x[j, i]
    after:   x.cache(j, i) = x[j, i];  y(i, j) = x.cache[j, i]

    The threads of a block fill the cache, its tile of x in shared memory, together.
    """

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Element-wise stages that read one tensor so; they stay as they are as well."""
        return Verdict.APPLY if len(_turned(stage)) == 1 else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state."""
        (tensor,) = _turned(stage)
        (state,) = ScheduleOnThreads().apply(state, stage)
        cache = cache_id(state.program, stage.id)
        inside = point_loops(state.program.stage(stage.id))[-1]
        dims = [LoopId(d, 0) for d in range(tensor.ndim)]
        state = state.then(
            CacheRead(state.program.tensor_id(tensor), stage.id, Scope.SHARED.value),
            ComputeAt(cache, stage.id, inside),
            *(Annotate(cache, dim, LoopKind.THREAD.value) for dim in dims),
        )
        return (state.done([cache]),)


def _turned(stage: StagePlan) -> list[Tensor]:
    """The tensors read once, at other axes than the last one in their last dimension."""
    last = vector_axis(stage.op)
    if stage.op.reduce is not None or last is None or last.extent < _LEAST_WRITTEN:
        return []
    loads = stage_loads(stage.op)
    read = Counter((load.tensor.op, load.tensor.output) for load in loads)
    return [
        load.tensor
        for load in loads
        if read[load.tensor.op, load.tensor.output] == 1 and _is_turned(load, last)
    ]


def _is_turned(load: Load, last: Axis) -> bool:
    """Whether the last axis walks another dimension than the last one, which a long axis walks."""
    forms = [affine_index(index) for index in load.indices]
    if not forms or any(form is None for form in forms):
        return False
    axes = [set(form[0]) for form in forms if form is not None]
    inner = axes[-1]
    walked = any(last in found for found in axes[:-1])
    return walked and last not in inner and any(axis.extent >= _LEAST_READ for axis in inner)

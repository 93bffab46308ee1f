"""What loops and decisions are called in print, by the names of the program.

Nothing is read from a label; it is looked up where a person gives one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sketch.lang.tensor import Compute
from sketch.schedule.decision import DecisionId, LoopDecision
from sketch.schedule.loop import LoopId

if TYPE_CHECKING:
    from sketch.schedule.program import Program

# What separates the parts of a label is written so within a name.
_ESCAPES: Final = (("%", "%25"), (".", "%2E"), ("@", "%40"))


def loop_label(op: Compute, loop: LoopId) -> str:
    """``k.1``: the loop at level 1 of the axis ``k``."""
    return f"{op.all_axes[loop.axis].name}.{loop.level}"


def decision_label(decision: DecisionId, program: Program) -> str:
    """``stage.axis@level``, which no other decision of the program gives.

    The characters ``. @ %`` of an axis are written ``%2E %40 %25``.
    """
    if not isinstance(decision, LoopDecision):
        return decision
    plan = program.find(decision.stage)
    if plan is None or not 0 <= decision.axis < len(plan.op.all_axes):
        return str(decision)
    axis = plan.op.all_axes[decision.axis].name
    for character, text in _ESCAPES:
        axis = axis.replace(character, text)
    return f"{plan.op.name}.{axis}@{decision.level}"

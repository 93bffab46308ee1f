"""How much code to make for a machine: trips that become straight-line code, stack, copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CodeLimits:
    """Limits of the code generator beside ``Target.instruction_budget``.

    Attributes:
        private_stack_bytes: largest private buffer on the stack; larger ones are in the workspace.
        lane_unroll_trips: longest loop that is unrolled because its lanes store to one element.
        reduce_unroll_trips: longest innermost reduce loop that is unrolled.
        edge_unroll_trips: longest reduce loop that is unrolled to decide predicates at an edge.
        edge_copies: most values of one variable that get a copy of their own at an edge.
        instruction_seconds: seconds that making one vector instruction of code takes.
        straight_instructions: most operations that the unrolled loops of a stage become; more
            would take minutes and are refused.
        vector_operation_bytes: widest vector operation that it cuts into instructions by itself.
        budget_used: share of the instruction budget that copies fill where more were wanted.
    """

    private_stack_bytes: int = 32 * 1024
    lane_unroll_trips: int = 16
    reduce_unroll_trips: int = 4
    edge_unroll_trips: int = 12
    edge_copies: int = 6
    instruction_seconds: float = 6e-5
    straight_instructions: int = 1 << 16
    vector_operation_bytes: int = 1 << 14
    budget_used: float = 0.6


USUAL_LIMITS: Final = CodeLimits()

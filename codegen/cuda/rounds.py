"""Points that one thread takes in several rounds of all threads.

A round may walk a part of what one variable walks, with all variables after it whole.  Then only
that variable and those before it change from round to round, by steps that are known when the code
is compiled: with the loop over rounds unrolled, they become offsets inside instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codegen.cuda.device import Binding, Cooperative, For, points
from sketch.nest.loopnest import Store
from sketch.nest.walk import store_loads

# Rounds of a shared copy that are written out, and how many at a time where there are more.
_MOST_ROUNDS = 16
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class RoundPart:
    """The values of one variable: ``first + step * turn``.

    Attributes:
        binding: of the variable.
        first: text of its value in the first round; "" for 0.
        step: from turn to turn; 0 where it has one value in all rounds.
        turn: text of the number of the turn, which depends on the round alone.
    """

    binding: Binding
    first: str
    step: int = 0
    turn: str = ""


def parts_of(
    bindings: tuple[Binding, ...], threads: int, thread: str
) -> tuple[RoundPart, ...] | None:
    """The variables of points that threads share out in whole rounds.

    Args:
        bindings: decode the number of a point.
        threads: of the block.
        thread: text of the number of this one.

    Returns:
        None where a variable changes with thread and round by no fixed step.
    """
    parts: list[RoundPart] = []
    walked = False  # what is left is walked whole in each round
    for number, binding in enumerate(bindings):
        inner = points(bindings[number + 1 :])
        index = thread if inner == 1 else f"{thread} / {inner}"
        if walked:
            parts.append(RoundPart(binding, _times(f"{index} % {binding.extent}", binding.stride)))
            continue
        rounds, step = max(1, inner // threads), max(1, threads // inner)
        turns, rest = divmod(binding.extent, step)
        if (threads % inner and inner % threads) or (number and rest):
            return None
        walked = inner < threads or inner == 1
        first = _times(index, binding.stride) if walked else ""
        turn = "round" if rounds == 1 else f"(round / {rounds})"
        turn = f"({turn} % {turns})" if number else turn
        parts.append(RoundPart(binding, first, step * binding.stride if turns > 1 else 0, turn))
    return tuple(parts)


def _times(text: str, stride: int) -> str:
    return text if stride == 1 else f"{text} * {stride}"


def unrolling(rounds: int, fills: Sequence[Cooperative]) -> str:
    """What the compiler is told about a loop of so many rounds of ``fills``.

    What a thread computes of several elements is copied so often that as many loads are under way:
    more of them would take the registers of the results.  What it computes by code of some length
    is not copied.
    """
    nodes = [node for fill in fills for node in fill.body]
    if any(isinstance(node, For) for node in nodes):
        return "#pragma unroll 1"
    loads = [len(store_loads(node)) for node in nodes if isinstance(node, Store)]
    most = max(1, _MOST_ROUNDS // max([1, *loads]))
    return "#pragma unroll" if rounds <= most else f"#pragma unroll {min(most, _ROUNDS)}"

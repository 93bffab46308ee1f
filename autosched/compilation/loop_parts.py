"""Where the values of a loop's body lie: in the sequences, the stacks, or what is carried on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autosched.graph.loop_call import LoopCall
from autosched.runtime.wiring import Inside


@dataclass(frozen=True, slots=True)
class LoopParts:
    """A loop in memory; values of the body are called after the loop.

    Attributes:
        parts: the values that lie in others.
        carried: bytes of what holds the states of two iterations, by name.
    """

    parts: Mapping[str, Inside]
    carried: Mapping[str, int]


def inner_name(call: LoopCall, value: str) -> str:
    """The name in the whole network of a value of the body."""
    return f"{call.name}/{value}"


def loop_parts(call: LoopCall) -> LoopParts:
    """Each result of the body is computed where it stays.

    That is its place in the stack, or in turn one of two places where it is a state only.  The next
    iteration reads the state there; the first one reads the loop's input instead.
    """
    states, slices = call.function.states, call.function.slices
    homes = list(call.body.results.values())
    buffers = _buffers(call, homes)
    carried = {
        buffer.whole: 2 * _size(call, home) for home, buffer in buffers.items() if buffer.period
    }
    parts = {inner_name(call, home): buffer for home, buffer in buffers.items()}
    for index, value in enumerate(call.body.inputs[: states + slices]):
        source = call.inputs[index]
        parts[inner_name(call, value.name)] = (
            replace(buffers[homes[index]], first=source)
            if index < states
            else _along(call, source, value.type.size_bytes)
        )
    for index, name in call.outputs.items():
        if index < states:
            parts[name] = _last(buffers[homes[index]], call.function.trips)
    return LoopParts(parts, carried)


def _buffers(call: LoopCall, homes: list[str]) -> dict[str, Inside]:
    """Where each iteration writes the states and what is stacked."""
    states = call.function.states
    buffers = {
        homes[index]: _along(call, name, _size(call, homes[index]))
        for index, name in call.outputs.items()
        if index >= states
    }
    for home in homes[:states]:
        both = f"{inner_name(call, home)} of two iterations"
        buffers.setdefault(home, Inside(both, 0, _size(call, home), period=2))
    return buffers


def _along(call: LoopCall, whole: str, size_bytes: int) -> Inside:
    """One slice of ``whole`` after the other."""
    if call.function.backwards:
        return Inside(whole, size_bytes * (call.function.trips - 1), -size_bytes)
    return Inside(whole, 0, size_bytes)


def _last(buffer: Inside, trips: int) -> Inside:
    """Where the last iteration wrote."""
    number = (trips - 1) % buffer.period if buffer.period else trips - 1
    return Inside(buffer.whole, buffer.offset + buffer.stride * number)


def _size(call: LoopCall, value: str) -> int:
    return call.body.graph.types[value].size_bytes

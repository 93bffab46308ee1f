"""The calls of a network as a graph: which call reads what which other computes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autosched.graph.extract import Extraction
from autosched.graph.host_call import HostCall
from autosched.graph.loop_call import LoopCall
from autosched.graph.subgraph import Subgraph


@dataclass(frozen=True, slots=True)
class NetworkOperator:
    """One call.

    Attributes:
        name: unique in the network.
        tasks: keys of its tasks: one of a kernel, several of a loop, none on the host.
        reads: numbers of the calls whose results it reads.
        layers: the model's own layers that it computes.
    """

    name: str
    tasks: tuple[str, ...]
    reads: tuple[int, ...]
    layers: tuple[str, ...]


def operators_of(extraction: Extraction) -> tuple[NetworkOperator, ...]:
    """The calls of a network in the order of execution."""
    makers: dict[str, list[int]] = {}
    found = []
    for number, call in enumerate(extraction.calls):
        reads = {n for value in _read(call) for n in makers.get(_whole(extraction, value), ())}
        found.append(
            NetworkOperator(call.name, tuple(_tasks(call)), tuple(sorted(reads)), call.layers)
        )
        for value in _made(call):
            makers.setdefault(_whole(extraction, value), []).append(number)
    return tuple(found)


def levels_of(operators: Iterable[NetworkOperator]) -> tuple[int, ...]:
    """How many calls are before each on the longest way to it."""
    levels: list[int] = []
    for operator in operators:
        levels.append(1 + max((levels[n] for n in operator.reads), default=-1))
    return tuple(levels)


def _whole(extraction: Extraction, value: str) -> str:
    """The value that has the memory in which ``value`` lies."""
    part = extraction.parts.get(value)
    return value if part is None else part.whole


def _read(call: Subgraph | LoopCall | HostCall) -> Iterable[str]:
    return call.inputs.values() if isinstance(call, Subgraph) else call.inputs


def _made(call: Subgraph | LoopCall | HostCall) -> Iterable[str]:
    if isinstance(call, Subgraph):
        return (call.output,)
    if isinstance(call, LoopCall):
        return call.outputs.values()
    return (value for _, value in call.outputs)


def _tasks(call: Subgraph | LoopCall | HostCall) -> Iterator[str]:
    if isinstance(call, Subgraph):
        yield call.task_key
    elif isinstance(call, LoopCall):
        for inner in call.body.calls:
            yield from _tasks(inner)

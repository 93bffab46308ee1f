"""A network as text: its kernels, the tasks behind them, and the layers that each computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autosched.graph.extract import Extraction, extract
from autosched.graph.ir import Network, Value
from autosched.graph.subgraph import Subgraph
from sketch.dag import output_shape

_MEGA = 1e6
_LAYERS_SHOWN = 4


def summarize(model: Network | Extraction) -> str:
    """One line per task in order of first use: key, uses, MFLOP, output shape, program, layers."""
    extraction = extract(model) if isinstance(model, Network) else model
    return "\n".join(_lines(extraction))


def _lines(extraction: Extraction) -> Iterator[str]:
    subgraphs = extraction.subgraphs
    work = sum(subgraph.dag.flops for subgraph in subgraphs)
    stored = sum(a.nbytes for subgraph in subgraphs for a in subgraph.constants.values())
    inputs, outputs = _signature(extraction.inputs), _signature(extraction.outputs)
    yield f"{extraction.graph.name}: {inputs} -> {outputs}"
    yield (
        f"{len(subgraphs)} kernels, {len(extraction.tasks)} tasks, "
        f"{work / _MEGA:,.1f} MFLOP, {stored / _MEGA:,.1f} MB of constants"
    )
    rows: list[tuple[str, ...]] = [("task", "uses", "MFLOP", "output", "program", "layers")]
    rows += [_row(extraction, index) for index in range(len(extraction.tasks))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.rjust(width) if column in (1, 2) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
    for call in extraction.host_calls:
        yield f"on the host: {call.function.operator} ({', '.join(call.layers)})"


def _row(extraction: Extraction, index: int) -> tuple[str, ...]:
    dag, uses = extraction.tasks[index]
    members = [subgraph for subgraph in extraction.subgraphs if subgraph.dag is dag]
    shape = "x".join(map(str, output_shape(dag.outputs[0])))
    program = members[0].name.rsplit(".", 1)[0]
    return (dag.key, str(uses), f"{dag.flops / _MEGA:.1f}", shape, program, _layers(members))


def _layers(members: Sequence[Subgraph]) -> str:
    names = ["+".join(subgraph.layers) or "layout change" for subgraph in members]
    shown = names[:_LAYERS_SHOWN]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more else "")


def _signature(values: Sequence[Value]) -> str:
    return ", ".join(f"{value.name} {value.type}" for value in values)

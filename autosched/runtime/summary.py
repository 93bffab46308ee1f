"""The table that ``Module.summary`` prints."""

from __future__ import annotations

from typing import Final

from autosched.runtime.backend import runtime_of
from autosched.runtime.program import ExecutionPlan, schedule_label
from autosched.runtime.table import render_table, shorten, size_text
from autosched.runtime.untuned import untuned_warning
from autosched.system.numbers import counted, significant
from sketch.html import html_table

HEADER: Final = ("#", "layers", "operator", "shapes", "MFLOP", "task", "schedule")
LEFT: Final = (1, 2, 3, 5, 6)


def program_text(program: ExecutionPlan) -> str:
    """Name, inputs, outputs and the number of steps, in one line."""
    inputs = ", ".join(map(str, program.inputs))
    outputs = ", ".join(str(spec) for spec, _ in program.outputs)
    kernels, on_host = len(program.kernel_steps), len(program.host_steps)
    rest = f", {on_host} on the host" if on_host else ""
    return f"{program.name}: {inputs} -> {outputs}; {kernels} kernels{rest}"


def program_table(program: ExecutionPlan) -> str:
    """One row a kernel, then totals and which tasks have no record."""
    table = render_table(HEADER, program_rows(program), LEFT)
    return "\n".join([_title(program), table, *program_totals(program)])


def program_html(program: ExecutionPlan) -> str:
    """The same for a notebook."""
    return html_table(_title(program), HEADER, program_rows(program), LEFT, program_totals(program))


def _title(program: ExecutionPlan) -> str:
    return f"{program.name} for {program.target.label}"


def program_rows(program: ExecutionPlan) -> list[tuple[str, ...]]:
    """The cells of each step, see ``HEADER``."""
    return [
        (
            str(number),
            shorten(", ".join(step.info.layers) or step.info.name, 44),
            step.info.op,
            shorten(step.info.shapes, 52),
            significant(step.info.flops / 1e6, 1),
            step.info.task[:8],
            schedule_label(step.info.schedule, step.info.algorithm),
        )
        for number, step in enumerate(program.steps)
    ]


def _memory(program: ExecutionPlan) -> str:
    """The sizes of the segments, and what one call needs of all at most."""
    constants, arena = program.constants_bytes, program.arena_bytes
    outputs = sum(spec.size_bytes for spec, place in program.outputs if place.segment != "host")
    # Of a GPU's plan it is not known which arguments are workspaces.
    in_process = runtime_of(program.target).in_process
    largest = max((step.sizes[-1] for step in program.kernel_steps if in_process), default=0)
    workspace = f" (workspace {size_text(largest)} of it)" if largest else ""
    return (
        f"memory: constants {size_text(constants)}; for each call arena {size_text(arena)}"
        f"{workspace} and outputs {size_text(outputs)}; at most "
        f"{size_text(constants + arena + outputs)} with one call at a time"
    )


def program_totals(program: ExecutionPlan) -> list[str]:
    """Lines about all steps together: kernels, memory, the host, and what is untuned."""
    infos = [step.info for step in program.kernel_steps]
    tasks = {info.task for info in infos}
    untuned = untuned_warning(program)
    flops = sum(info.flops for info in infos)
    lines = [
        f"{counted(len(infos), 'kernel')}, {counted(len(tasks), 'task')}, "
        f"{significant(flops / 1e9, 3)} GFLOP, "
        f"{runtime_of(program.target).workers} {program.target.threads}",
        _memory(program),
    ]
    for step in program.host_steps:
        names = ", ".join(step.info.layers) or step.info.name
        lines.append(f"{step.info.op} ({names}) runs on the host, in onnxruntime or onnx")
    return [*lines, untuned] if untuned else lines

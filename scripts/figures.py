"""Draw the figures of docs/ from real objects: ``python -m scripts.figures``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import autosched as asd
from autosched.task import Task
from costmodel.extract import draft_seconds
from scripts.flow_figures import PARTS, PARTS_ARROWS, ROUND, ROUND_ARROWS, draw_flow
from sketch.lower import lower
from sketch.nest.loopnest import Allocate, Loop, LoopKind, Node, Store
from sketch.population.feasible import feasible
from sketch.population.population import sample
from sketch.schedule.decision import DecisionId
from sketch.schedule.loop import LoopId
from sketch.schedule.sketch import Sketch
from sketch.schedule.steps import Factor
from sketch.target.target import Target

FOLDER: Final = Path(__file__).parents[1] / "docs" / "figures"
COLOURS: Final[Mapping[LoopKind, str]] = {
    LoopKind.PARALLEL: "#3b6fb6",
    LoopKind.SERIAL: "#8a8f98",
    LoopKind.UNROLLED: "#c98a1b",
    LoopKind.VECTORIZED: "#3f8f5f",
}
# Rows that are drawn for the landscape: a few for most pairs of tile sizes.
ROWS: Final = 60_000
# Same file for the same figure: no dates, no random names.
_SETTINGS: Final = {"svg.fonttype": "none", "svg.hashsalt": "autosched", "font.size": 10}


def example() -> Task:
    """The program of docs/concepts.md on its target."""
    data = asd.placeholder((256, 384), name="A")
    weights = asd.placeholder((384, 512), name="B", constant=True)
    bias = asd.placeholder((512,), name="bias", constant=True)
    k = asd.reduce_axis(384, name="k")
    product = asd.compute(
        (256, 512), lambda i, j: asd.sum(data[i, k] * weights[k, j], axis=k), name="C"
    )
    result = asd.compute(
        (256, 512), lambda i, j: asd.maximum(product[i, j] + bias[j], 0.0), name="D"
    )
    target = Target(
        "cpu", "x86-64-v4", "+avx512f", threads=2, vector_bytes=64, registers=32,
        l1_bytes=32 * 1024, l2_bytes=1024 * 1024, l3_bytes=32 * 1024 * 1024,
    )  # fmt: skip
    return Task({"direct": asd.ComputeDAG([result])}, target, name="dense")


def draw_dag(task: Task) -> Figure:
    """Placeholders and stages as boxes, an arrow for everything that is read."""
    dag = task.dag
    figure, axes = _canvas(8.0, 2.6)
    depth: dict[str, int] = {tensor.name: 0 for tensor in dag.inputs}
    for stage in dag.stages:
        depth[stage.name] = 1 + max(depth[source.name] for source in dag.producers(stage))
    lines = dict(line.split(" ", 1) for line in str(dag).splitlines()[: len(dag.inputs)])
    texts = {name: f"{name} {text}" for name, text in lines.items()}
    for stage, line in zip(dag.stages, str(dag).splitlines()[len(dag.inputs) :], strict=True):
        texts[stage.name] = line.replace("  # ", "\n")
    for stage in dag.stages:
        for source in dag.producers(stage):
            # A placeholder stands beside the first stage that reads it.
            depth[source.name] = max(depth[source.name], depth[stage.name] - 1)
    columns = {n: [name for name in depth if depth[name] == n] for n in set(depth.values())}
    places = {
        name: (0.16 + 0.34 * n, (row + 0.5) / len(names))
        for n, names in columns.items()
        for row, name in enumerate(reversed(names))
    }
    stages = {stage.name for stage in dag.stages}
    boxes = {}
    for name, (x, y) in places.items():
        box = {"boxstyle": "round,pad=0.4", "fc": "#e8eef7" if name in stages else "#f2f2f2"}
        text = texts[name].replace(" = ", "\n", 1) if name not in stages else texts[name]
        drawn = axes.text(
            x, y, text, ha="center", va="center", bbox=box, family="monospace", size=8
        )
        boxes[name] = drawn.get_bbox_patch()
    for stage in dag.stages:
        for source in dag.producers(stage):
            style = {"arrowstyle": "->", "patchA": boxes[source.name], "patchB": boxes[stage.name]}
            axes.annotate("", places[stage.name], places[source.name], arrowprops=style)
    return figure


def draw_loop_nest(task: Task) -> Figure:
    """Loops of the draft model's candidate, indented, and the decision that sizes each."""
    candidate = task.draft_candidate()
    nest = lower(candidate.sketch, candidate.values)
    lines = list(_lines(nest.roots, 0))
    names = sizes_of(candidate.sketch)
    figure, axes = _canvas(8.0, 0.26 * (len(lines) + 2))
    step = 1.0 / (len(lines) + 1)
    for row, (depth, node) in enumerate(lines):
        y = 1.0 - (row + 0.75) * step
        text, colour = _describe(node)
        axes.text(0.02 + 0.022 * depth, y, text, va="center", family="monospace", color=colour)
        if isinstance(node, Loop) and node.var.name in names:
            name = names[node.var.name]
            value = candidate.values[name] if isinstance(name, DecisionId) else name
            called = candidate.sketch.labels.get(name) if isinstance(name, DecisionId) else None
            label = f"{value} lanes" if called is None else f"{called} = {value}"
            axes.text(0.78, y, label, va="center", family="monospace", color="#7a2f8f")
    return figure


def draw_landscape(task: Task) -> Figure:
    """Best draft time of random rows over the two sizes of the register tile."""
    labels, sketch = ("D.i@3", "D.j@3"), task.sketches[0]
    times, sizes = landscape(task, sketch.decision(labels[0]), sketch.decision(labels[1]))
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    shown = axes.imshow(times.T * 1e6, origin="lower", aspect="auto", cmap="viridis_r")
    axes.set_xticks(range(0, len(sizes[0]), 3), [str(n) for n in sizes[0][::3]])
    axes.set_yticks(range(0, len(sizes[1]), 2), [str(n) for n in sizes[1][::2]])
    axes.set_xlabel(f"rows of the register tile ({labels[0]})")
    axes.set_ylabel(f"vectors ({labels[1]})")
    axes.set_title("white: too many registers, or too few independent accumulators", size=9)
    figure.colorbar(shown, label="best draft time, us")
    return figure


def landscape(
    task: Task, first: DecisionId, second: DecisionId, count: int = ROWS
) -> tuple[NDArray[np.float64], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """[n1, n2] best draft seconds over two decisions (NaN: no feasible row), and their values."""
    sketch = task.sketches[0]
    population = sample(sketch, count, np.random.default_rng(0))
    population = population.take(feasible(sketch, population.columns()))
    columns = population.columns()
    seconds = draft_seconds(population)
    x, at_x = np.unique(columns[first], return_inverse=True)
    y, at_y = np.unique(columns[second], return_inverse=True)
    times = np.full((len(x), len(y)), np.inf)
    np.minimum.at(times, (at_x, at_y), seconds)
    return np.where(np.isinf(times), np.nan, times), (x, y)


def sizes_of(sketch: Sketch) -> dict[str, Factor]:
    """The decision or the number that gives the trips of a loop, by the loop's name in the nest."""
    return {
        f"{plan.op.name}.{plan.labels([LoopId(axis, level)])}": factor
        for plan in sketch.program.stages
        for axis, factors in plan.splits.items()
        for level, factor in enumerate(factors, start=1)
    }


def _lines(nodes: Sequence[Node], depth: int) -> list[tuple[int, Node]]:
    found: list[tuple[int, Node]] = []
    for node in nodes:
        found.append((depth, node))
        if isinstance(node, Loop | Allocate):
            found += _lines(node.body, depth + 1)
    return found


def _describe(node: Node) -> tuple[str, str]:
    match node:
        case Loop():
            reduce = ", reduces" if node.axis_kind == "reduce" else ""
            return f"{node.kind.value} {node.var.name} x{node.extent}{reduce}", COLOURS[node.kind]
        case Allocate(buffer, _):
            shape = ", ".join(map(str, buffer.shape))
            return f"local {buffer.name} [{shape}]", "black"
        case Store():
            assign = "=" if node.reducer is None else f"{node.reducer.name}="
            return f"{node.targets[0].name}[...] {assign} ...", "black"
        case _:
            return type(node).__name__, "black"


def _canvas(width: float, height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    return figure, axes


FIGURES: Final[Mapping[str, Callable[[Task], Figure]]] = {
    "dag": draw_dag,
    "loop_nest": draw_loop_nest,
    "landscape": draw_landscape,
    "parts": lambda _: draw_flow(PARTS, PARTS_ARROWS),
    "round": lambda _: draw_flow(ROUND, ROUND_ARROWS),
}


def draw(folder: Path) -> list[Path]:
    """Write all figures; returns their files."""
    folder.mkdir(parents=True, exist_ok=True)
    task, paths = example(), []
    with mpl.rc_context(_SETTINGS):
        for name, make in FIGURES.items():
            paths.append(folder / f"{name}.svg")
            make(task).savefig(paths[-1], metadata={"Date": None})
    return paths


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER, help="where they go")
    for path in draw(parser.parse_args().folder):
        print(path)


if __name__ == "__main__":
    main()

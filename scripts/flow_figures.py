"""Flow charts of docs/: boxes in a grid, and arrows between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from matplotlib.figure import Figure

# A box by its name: text, column and row.
Boxes = Mapping[str, tuple[str, float, int]]

PARTS: Final[Boxes] = {
    "model": ("model", 0, 0),
    "graph": ("graph", 1, 0),
    "tasks": ("tasks", 2, 0),
    "sketches": ("sketches", 3, 0),
    "populations": ("populations", 4, 0),
    "nests": ("loop nests", 4, 1),
    "code": ("machine\ncode", 3, 1),
    "measured": ("measured\ntimes", 2, 1),
    "records": ("records", 1, 1),
    "scheduler": ("task\nscheduler", 2, 2),
    "cost model": ("cost model", 4, 2),
}
PARTS_ARROWS: Final = (
    "model > graph", "graph > tasks", "tasks > sketches", "sketches > populations",
    "populations > nests", "nests > code", "code > measured", "measured > records",
    "measured > scheduler", "measured > cost model",
)  # fmt: skip
ROUND: Final[Boxes] = {
    "best": ("best measured\nrows", 0, 0),
    "random": ("random rows of\nall sketches", 0, 1),
    "population": ("population", 1, 0),
    "score": ("score with\nthe models", 2, 0),
    "evolve": ("mutate\nand cross", 2, 1),
    "pick": ("a diverse batch,\na few at random", 3, 0),
    "time": ("compile\nand time", 4, 0),
    "learn": ("learn", 4, 1),
}
ROUND_ARROWS: Final = (
    "best > population", "random > population", "population > score", "score > evolve",
    "evolve > score", "score > pick", "pick > time", "time > learn",
)  # fmt: skip


def draw_flow(boxes: Boxes, arrows: Sequence[str]) -> Figure:
    """A flow chart; ``arrows``: ``from > to`` by the names of boxes."""
    rows = 1 + max(row for _, _, row in boxes.values())
    columns = 1 + max(column for _, column, _ in boxes.values())
    figure = Figure(figsize=(8.0, 0.95 * rows), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    style = {"boxstyle": "round,pad=0.4", "fc": "#e8eef7"}
    places, patches = {}, {}
    for name, (text, column, row) in boxes.items():
        places[name] = ((column + 0.5) / columns, 1 - (row + 0.5) / rows)
        drawn = axes.text(*places[name], text, ha="center", va="center", bbox=style, size=8)
        patches[name] = drawn.get_bbox_patch()
    for arrow in arrows:
        start, end = arrow.split(" > ")
        both = f"{end} > {start}" in arrows  # two arrows beside each other
        line = {
            "arrowstyle": "->",
            "patchA": patches[start],
            "patchB": patches[end],
            "connectionstyle": f"arc3,rad={0.4 if both else 0}",
        }
        axes.annotate("", places[end], places[start], arrowprops=line)
    return figure

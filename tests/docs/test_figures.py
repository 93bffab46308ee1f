"""The script that draws the figures of docs/ runs, and draws those that pages show."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.support.lazily import lazily
from tests.support.pages import PAGES, Page

figures = lazily("scripts.figures", "matplotlib")


@pytest.mark.slow
def test_figures_are_drawn(tmp_path):
    for path in figures.draw(tmp_path):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")


def test_every_figure_is_shown_on_a_page():
    shown = {link for path in PAGES for link in Page(path).links if link.endswith(".svg")}
    assert shown == {f"figures/{name}.svg" for name in figures.FIGURES}


def test_the_landscape_has_holes_where_tiles_do_not_fit():
    task = figures.example()
    sketch = task.sketches[0]
    times, (rows, vectors) = figures.landscape(
        task, sketch.decision("D.i@3"), sketch.decision("D.j@3"), count=2000
    )
    registers = rows[:, None] * vectors + vectors + 1
    assert (times[registers > task.target.registers] > 0).sum() == 0
    assert (times > 0).any()

"""The notebooks run from top to bottom at a tiny budget, and show outputs of their own cells."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
TINY = {
    "01_quickstart": 'trials = 8\nbudget = "1s"\nimage = 32\nthreads = 1',
    "02_reading_a_tuning_log": (
        'log = "log.jsonl"\nmodel = "mlp"\nimage = 16\nthreads = 1\ntrials = 48'
    ),
    "03_comparing_policies": ("simulated = True\ntable_size = 20\ntrials = 4\nrepetitions = 1"),
    "04_from_expression_to_cuda": (
        'size = 64\ncard = "h200"\ndraws = 64\nrows = 1\ndevice = "emulated"'
    ),
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_of_the_cells(path):
    """Where this fails, `python -m scripts.notebooks NAME` runs the notebook again."""
    from scripts.notebooks import OUTPUTS_OF, hash_of

    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert notebook.metadata[OUTPUTS_OF] == hash_of(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert outputs and all(output.output_type != "error" for output in outputs)
    assert path.stat().st_size < 600_000
    shown = str(outputs)
    assert re.search(r"/(home|root|tmp|work)/", shown) is None
    drawn = sum("plots." in cell.source or "subplots(" in cell.source for cell in cells)
    assert shown.count("image/png") >= drawn > 0 or path.stem.startswith("04_")


def test_parameters_stand_in_one_cell() -> None:
    assert [path.stem for path in NOTEBOOKS] == sorted(TINY)
    for path in NOTEBOOKS:
        (cell,) = parameters_of(nbformat.read(path, as_version=4))
        names = [line.split("=")[0].strip() for line in cell.source.splitlines()]
        assert names == [line.split("=")[0].strip() for line in TINY[path.stem].splitlines()]


def parameters_of(notebook: Any) -> list[Any]:
    return [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]


def tiny(path: Path) -> Any:
    notebook = nbformat.read(path, as_version=4)
    parameters_of(notebook)[0].source = TINY[path.stem]
    return notebook


@pytest.mark.slow
def test_the_first_notebook_runs_in_jupyter(tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(tiny(NOTEBOOKS[0]), timeout=240, resources=resources).execute()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.slow] * path.stem.startswith("03_"))
        for path in NOTEBOOKS[1:]
    ],
    ids=lambda path: path.stem,
)
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process: starting Jupyter and loading everything takes longer than the cells."""
    plots = pytest.importorskip("matplotlib.pyplot")
    plots.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    try:
        for cell in tiny(path).cells:
            if cell.cell_type == "code":
                run_cell(cell.source, names)
                plots.close("all")
    finally:
        plots.close("all")


def run_cell(source: str, names: dict[str, Any]) -> None:
    """Run a cell; the value of an expression at its end is shown."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        getattr(value, "_repr_html_", value.__repr__)()

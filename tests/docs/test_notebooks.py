"""The notebooks run from top to bottom at a tiny budget."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
TINY = {
    "01_quickstart": 'trials = 8\nbudget = "1s"\nimage = 32\nthreads = 1',
    "02_reading_a_tuning_log": (
        'log = "log.jsonl"\nmodel = "mlp"\nimage = 16\nthreads = 1\ntrials = 24'
    ),
    "03_comparing_policies": ("simulated = True\ntable_size = 32\ntrials = 4\nrepetitions = 1"),
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stripped(path):
    for cell in nbformat.read(path, as_version=4).cells:
        assert cell.cell_type != "code" or (not cell.outputs and cell.execution_count is None)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path):
    notebook, tiny = nbformat.read(path, as_version=4), TINY[path.stem]
    parameters = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    assert len(parameters) == 1
    names = [line.split("=")[0].strip() for line in parameters[0].source.splitlines()]
    assert names == [line.split("=")[0].strip() for line in tiny.splitlines()]
    parameters[0].source = tiny
    client = nbclient.NotebookClient(
        notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()

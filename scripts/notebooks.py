"""Run notebooks and keep their outputs: ``python -m scripts.notebooks [NAME ...]``.

A notebook says which sources its outputs are of; a test compares that with its cells.  Numbers are
those of the machine that ran it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import nbformat

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "notebooks"
# In a notebook's metadata: the hash of the cells that its outputs are of.
OUTPUTS_OF: Final = "outputs_of"
_TIMEOUT_S: Final = 1800


def hash_of(notebook: Any) -> str:
    """Equal for notebooks with equal code, 16 hex digits."""
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()[:16]


def render(path: Path) -> None:
    """Run a notebook in an empty folder, and write it with its outputs."""
    import nbclient  # is slow to load, and a test only asks for hashes

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = nbclient.NotebookClient(
            notebook,
            timeout=_TIMEOUT_S,
            record_timing=False,
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    notebook.metadata[OUTPUTS_OF] = hash_of(notebook)
    notebook.metadata.pop("widgets", None)
    nbformat.write(notebook, path)


def main(names: Sequence[str] | None = None) -> None:
    """Render the notebooks whose names contain one of ``names``; without any, all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names (default: all notebooks)")
    wanted = parser.parse_args(names).names or [""]
    for path in sorted(FOLDER.glob("*.ipynb")):
        if any(name in path.stem for name in wanted):
            print(path.name, flush=True)
            render(path)


if __name__ == "__main__":
    main()

"""Where the files of a library go."""

from __future__ import annotations

import os
import re
from pathlib import Path


def library_path(path: str | os.PathLike[str], model: str) -> Path:
    """The files without suffix: ``path``, or those of the model in ``path`` where it is a folder.

    A folder exists, or its path ends with a separator.  ``model``: its name.
    """
    text = os.fspath(path)
    if text.endswith(os.sep) or os.path.isdir(text):
        return Path(text) / (re.sub(r"[^\w.-]+", "_", model).strip("._") or "model")
    return Path(text)

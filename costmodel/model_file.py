"""Files of models: one error where they cannot be read or written."""

from __future__ import annotations

from pathlib import Path

from costmodel.errors import CostModelError
from sketch.replaced_file import whole_output


def write_model(path: Path, content: str | bytes) -> None:
    """Write a model where ``whole_output`` says.

    Raises:
        CostModelError: it cannot be written; what was there stays if its folder takes more files.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        with whole_output(path) as partial:
            partial.write_bytes(data)
    except OSError as error:
        raise CostModelError(f"the model cannot be written: {error.strerror}", str(path)) from error


def read_model(path: Path) -> bytes:
    """What ``write_model`` wrote.

    Raises:
        CostModelError: there is no such file, or it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise CostModelError(f"the model cannot be read: {error.strerror}", str(path)) from error

"""Arrays by name, from files that NumPy writes."""

from __future__ import annotations

import zlib
from typing import Any
from zipfile import BadZipFile

from numpy.typing import NDArray

from autosched.cli.command import FileError


def read_arrays(path: str) -> dict[str, NDArray[Any]]:
    """The arrays of an ``.npz`` file; raises FileError where it is none."""
    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
        if not isinstance(found, np.lib.npyio.NpzFile):
            raise ValueError("it is a single array without a name")
        with found:
            return {name: found[name] for name in found.files}
    except (OSError, ValueError, EOFError, BadZipFile, RuntimeError, zlib.error) as error:
        raise FileError(
            f"cannot read arrays: {error}", path, "write the file with numpy.savez"
        ) from error

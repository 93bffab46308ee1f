"""Arrays by name, from files that NumPy writes."""

from __future__ import annotations

from typing import Any
from zipfile import BadZipFile

from numpy.typing import NDArray

from autosched.cli.command import UsageError


def read_arrays(path: str) -> dict[str, NDArray[Any]]:
    """The arrays of an ``.npz`` file; raises UsageError where it is none."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (OSError, ValueError, BadZipFile, AttributeError) as error:
        raise UsageError(
            f"cannot read arrays: {error}", path, "write the file with numpy.savez"
        ) from error

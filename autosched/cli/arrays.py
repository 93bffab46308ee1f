"""Arrays by name, from files that NumPy writes."""

from __future__ import annotations

import zlib
from typing import Any, Final
from zipfile import BadZipFile

from numpy.typing import NDArray

from autosched.cli.command import FileError

# What files of NumPy begin with.
_ARCHIVE: Final = b"PK"
_ARRAY: Final = b"\x93NUMPY"
_HINT: Final = "write the file with numpy.savez"


def read_arrays(path: str) -> dict[str, NDArray[Any]]:
    """The arrays of an ``.npz`` file; raises FileError where it is none."""
    import numpy as np

    try:
        with open(path, "rb") as file:
            if not file.read(len(_ARRAY)).startswith((_ARCHIVE, _ARRAY)):
                raise ValueError("the file has none")  # NumPy takes it for a pickle
        found = np.load(path, allow_pickle=False)
        if not isinstance(found, np.lib.npyio.NpzFile):
            raise ValueError("it is a single array without a name")
        with found:
            return {name: found[name] for name in found.files}
    except OSError as error:
        raise FileError(f"cannot read arrays: {error.strerror or error}", path, _HINT) from error
    except (ValueError, EOFError, BadZipFile, RuntimeError, zlib.error) as error:
        raise FileError(f"cannot read arrays: {error}", path, _HINT) from error

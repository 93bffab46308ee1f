"""Files of arrays that options name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autosched.cli.arrays import read_arrays
from autosched.cli.command import FileError


def test_arrays_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "arrays.npz", a=np.arange(3))
    np.testing.assert_array_equal(read_arrays(str(tmp_path / "arrays.npz"))["a"], [0, 1, 2])


@pytest.mark.parametrize("kind", ["one", "empty", "text", "missing", "compressed", "method"])
def test_other_files_are_one_error(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    np.savez_compressed(path, a=np.arange(1000))
    data = bytearray(path.read_bytes())
    if kind == "one":
        with path.open("wb") as file:
            np.save(file, np.arange(3))
    elif kind == "missing":
        path.unlink()
    elif kind == "compressed":  # in the middle of the compressed data
        data[len(data) // 3] ^= 0xFF
        path.write_bytes(data)
    elif kind == "method":  # of compression, in the directory at the end
        data[data.rindex(b"PK\x01\x02") + 10] = 99
        path.write_bytes(data)
    else:
        path.write_bytes(b"" if kind == "empty" else b"no arrays")
    with pytest.raises(FileError, match="cannot read arrays") as raised:
        read_arrays(str(path))
    text = str(raised.value)
    assert "pickle" not in text and "Errno" not in text and text.count(str(path)) == 1

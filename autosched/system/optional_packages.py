"""Packages that only some functions need, and tables for the most common of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from autosched.system.errors import MissingPackageError


def require(package: str, purpose: str, install: str) -> None:
    """Raise MissingPackageError unless a package can be imported.

    Args:
        package: name of the top-level package.
        purpose: what it is needed for.
        install: what to give to pip.
    """
    if find_spec(package) is None:
        raise MissingPackageError(
            f"the package {package!r} is not installed", purpose, f"pip install {install}"
        )


def data_frame(
    rows: Sequence[dict[str, Any]],
    columns: Sequence[str] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> Any:
    """A pandas DataFrame: one row a mapping from column to value; absent values are NaN.

    Args:
        rows: of the frame.
        columns: of a frame without rows.
        attributes: what holds for all rows, as the frame's ``attrs``.

    Raises:
        MissingPackageError: pandas is not installed.
    """
    require("pandas", "data frames", "pandas")
    import pandas

    frame = pandas.DataFrame(rows) if rows else pandas.DataFrame(columns=columns)
    frame.attrs.update(attributes or {})
    return frame

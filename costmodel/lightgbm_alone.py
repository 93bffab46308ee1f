"""LightGBM without what it imports for others: that takes eight times as long as it does."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.abc import MetaPathFinder
from threading import Lock, get_ident
from types import ModuleType
from typing import Any, Final

# What LightGBM does without where it is not installed: its own wrappers, data frames, clusters.
_OPTIONAL: Final = frozenset(("sklearn", "pandas", "pyarrow", "dask", "matplotlib", "graphviz"))
# Elsewhere its OpenMP runtime may not load after that of scikit-learn.
_EITHER_FIRST: Final = ("x86_64", "AMD64")
# Sessions in threads begin together: each would load a copy, and take away what others import.
_LOADING: Final = Lock()


class _WithoutOptional(MetaPathFinder):
    """For the thread that makes it, optional packages are not installed."""

    def __init__(self) -> None:
        self._thread = get_ident()

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> None:
        """Raise ModuleNotFoundError for what is in an optional package."""
        if get_ident() == self._thread and fullname.partition(".")[0] in _OPTIONAL:
            raise ModuleNotFoundError(f"{fullname} is left out", name=fullname)


def load_lightgbm() -> ModuleType:
    """The module ``lightgbm``: the user's if it is loaded, else one that nobody else sees.

    Who imports LightGBM later gets another one with everything in it.
    """
    with _LOADING:
        return _loaded()


@cache
def _loaded() -> ModuleType:
    if "lightgbm" in sys.modules or platform.machine() not in _EITHER_FIRST:
        return import_module("lightgbm")
    finder = _WithoutOptional()
    sys.meta_path.insert(0, finder)
    try:
        return import_module("lightgbm")
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] == "lightgbm"]:
            del sys.modules[name]

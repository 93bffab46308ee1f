"""Modules that take seconds to load are loaded when the first test of a file that names them runs.

Every process of pytest-xdist imports all files of tests, and one of them runs those of torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest


@dataclass(frozen=True)
class _Lazily:
    """Stands for a module among the names of a file until its tests run."""

    name: str


def lazily(name: str, *others: str) -> Any:
    """The module ``name`` while tests run.

    The file that asks is skipped where the module's package or one of ``others`` is missing.
    """
    for needed in (name.partition(".")[0], *others):
        if find_spec(needed) is None:
            pytest.skip(f"needs {needed}", allow_module_level=True)
    return _Lazily(name)


def load_modules_of(file: ModuleType) -> None:
    """Put modules in the place of what stands for them among the names of a file of tests."""
    for name, value in list(vars(file).items()):
        if isinstance(value, _Lazily):
            setattr(file, name, import_module(value.name))

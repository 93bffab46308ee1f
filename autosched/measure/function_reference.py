"""Functions by name, so that a clean process can import them.

``package.module:function`` where the module can be imported by name, ``/path/file.py:function``
for functions of a script.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from autosched.measure.errors import MeasureError


def reference_of(function: Callable[..., Any]) -> str:
    """The reference of a module-level function.

    Raises:
        MeasureError: a lambda, a nested function or a method; another process cannot find those.
    """
    name = getattr(function, "__qualname__", repr(function))
    module = getattr(function, "__module__", None)
    if module is None or not name.isidentifier():
        raise MeasureError(
            f"{name} cannot be sent to another process", hint="define it at the top of a module"
        )
    if _importable(module):
        return f"{module}:{name}"
    return f"{inspect.getfile(function)}:{name}"


def _importable(module: str) -> bool:
    if module == "__main__":
        return False
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    loaded = getattr(sys.modules.get(module), "__file__", None)
    return found is not None and found.origin == loaded


def resolve(reference: str) -> Callable[..., Any]:
    """The function that ``reference`` names; imports its module."""
    place, _, name = reference.rpartition(":")
    module = _load_file(place) if place.endswith(".py") else importlib.import_module(place)
    function: Callable[..., Any] = getattr(module, name)
    return function


def _load_file(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("autosched_user_functions", path)
    if spec is None or spec.loader is None:
        raise MeasureError(f"{path} cannot be loaded as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

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
from pathlib import Path
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
    """Whether a fresh process with our ``sys.path`` finds the same file under this name.

    Not ``find_spec``: it answers from ``sys.modules``, for modules loaded in any other way too.
    """
    loaded = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" or loaded is None:
        return False
    stem = Path(*module.split("."))
    places = (stem.with_suffix(".py"), stem / "__init__.py")
    return any(
        (Path(entry) / place).resolve() == Path(loaded).resolve()
        for entry in sys.path
        for place in places
    )


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

"""Workloads by name, wherever they are: the library's, or in a file or a module of the user's."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Final

from autosched.system.errors import WorkloadError
from autosched.workloads.builtin import WORKLOADS, get
from autosched.workloads.definition import Workload
from autosched.workloads.naming import choose

_SUFFIX: Final = ".py"


def find(reference: str) -> Workload[...]:
    """The workload that a text names.

    Args:
        reference: a built-in workload (``C2D``), or ``FILE.py:NAME`` or ``package.module:NAME``.
            NAME is a workload there, by its own name or that of the variable, or a function that
            returns output tensors; it may be left out where the file has a single workload.

    Raises:
        WorkloadError: there is none, or the file or the module cannot be imported.
    """
    source, colon, name = reference.rpartition(":")
    if not colon and not reference.endswith(_SUFFIX):
        return get(reference)
    if not colon:
        source, name = reference, ""
    module = _module(source)
    workloads = _workloads(module)
    named = vars(module).get(name)
    if isinstance(named, Workload):
        return named
    if callable(named):
        return Workload(name, named)
    if not name and len(workloads) == 1:
        return workloads[0]
    return choose(name, workloads, source)


def listed(reference: str | None = None) -> tuple[Workload[...], ...]:
    """The built-in workloads, those of a file (``FILE.py``), or the one that ``find`` finds.

    Raises:
        WorkloadError: there is none, or the file cannot be imported.
    """
    if reference is None:
        return WORKLOADS
    if reference.endswith(_SUFFIX):
        return _workloads(_module(reference))
    return (find(reference),)


def _workloads(module: ModuleType) -> tuple[Workload[...], ...]:
    found = [value for value in vars(module).values() if isinstance(value, Workload)]
    return tuple(dict.fromkeys(found))


def _module(source: str) -> ModuleType:
    if source.endswith(_SUFFIX) and not Path(source).is_file():
        raise WorkloadError("there is no such file", source)
    try:
        return _execute(Path(source)) if source.endswith(_SUFFIX) else import_module(source)
    except Exception as error:
        lines = [frame.lineno for frame in extract_tb(error.__traceback__)
                 if frame.filename == str(Path(source).resolve())]  # fmt: skip
        line = f":{lines[-1]}" if lines else ""
        raise WorkloadError(
            f"it cannot be imported: {type(error).__name__}: {error}", f"{source}{line}"
        ) from error


def _execute(path: Path) -> ModuleType:
    """Run a file as a module; like a script, it may import what lies beside it."""
    path = path.resolve()
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None  # a name that ends in .py has a loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

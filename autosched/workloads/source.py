"""Workloads by name, wherever they are: the library's, or in a file or a module of the user's."""

from __future__ import annotations

from types import ModuleType

from autosched.system.errors import WorkloadError
from autosched.system.user_modules import SUFFIX, imported
from autosched.workloads.builtin import WORKLOADS, get
from autosched.workloads.definition import Workload
from autosched.workloads.naming import choose


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
    if not colon and not reference.endswith(SUFFIX):
        return get(reference)
    if not colon:
        source, name = reference, ""
    module = imported(source, WorkloadError)
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
    if reference.endswith(SUFFIX):
        return _workloads(imported(reference, WorkloadError))
    return (find(reference),)


def _workloads(module: ModuleType) -> tuple[Workload[...], ...]:
    found = [value for value in vars(module).values() if isinstance(value, Workload)]
    return tuple(dict.fromkeys(found))

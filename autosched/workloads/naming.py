"""Which workload a name means, and what to say when it means none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from autosched.system.errors import WorkloadError
from autosched.workloads.definition import Workload


def choose(name: str, workloads: Sequence[Workload[...]], where: str) -> Workload[...]:
    """The workload called ``name``, in upper or lower case.

    Raises:
        WorkloadError: there is none.
    """
    for workload in workloads:
        if workload.name.upper() == name.upper():
            return workload
    hint = suggestion(name, [workload.name for workload in workloads])
    raise WorkloadError(f"there is no workload {name!r}", where, hint)


def suggestion(name: str, known: Iterable[str]) -> str:
    """The nearest of the names as a question, where one is near, and all of them."""
    names = {text.upper(): text for text in known}
    close = get_close_matches(name.upper(), names, n=1, cutoff=0.5)
    guess = f"did you mean {names[close[0]]}? " if close else ""
    return f"{guess}known: {', '.join(names.values())}" if names else "there are none"

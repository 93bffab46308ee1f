"""Which workload a name means, and what to say when it means none."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.system.errors import WorkloadError
from autosched.workloads.definition import Workload
from sketch.errors import suggestion


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

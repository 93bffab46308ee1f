"""The built-in workloads."""

from __future__ import annotations

from typing import Final

from autosched.errors import WorkloadError
from autosched.workloads.convolution import c1d, c2d, c3d, cap, dep, dil, grp, t2d
from autosched.workloads.definition import Workload
from autosched.workloads.layer import cbr
from autosched.workloads.matrix import gmm, nrm, sfm, tbmm

WORKLOADS: Final[tuple[Workload, ...]] = (
    c1d,
    c2d,
    c3d,
    gmm,
    grp,
    dil,
    dep,
    t2d,
    cap,
    nrm,
    sfm,
    cbr,
    tbmm,
)


def get(name: str) -> Workload:
    """The built-in workload of that name, in upper or lower case.

    Raises:
        WorkloadError: there is none.
    """
    for found in WORKLOADS:
        if found.name == name.upper():
            return found
    known = ", ".join(found.name for found in WORKLOADS)
    raise WorkloadError(f"there is no workload {name!r}", hint=f"known: {known}")

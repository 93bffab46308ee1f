"""The built-in workloads."""

from __future__ import annotations

from typing import Final

from autosched.workloads.convolution import c1d, c2d, c3d, cap, dep, dil, grp, t2d
from autosched.workloads.definition import Workload
from autosched.workloads.layer import cbr
from autosched.workloads.matrix import gmm, nrm, sfm, tbmm
from autosched.workloads.naming import choose

WORKLOADS: Final[tuple[Workload[...], ...]] = (
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


def get(name: str) -> Workload[...]:
    """The built-in workload of that name, in upper or lower case.

        >>> print(asd.workloads.get("GMM").task(1, 16, 16, 16).dag)
        A = placeholder [1, 16, 16] float32
        B = placeholder [1, 16, 16] float32
        gmm(b, i, j) += A[b, i, k]*B[b, k, j]  # b 1, i 16, j 16, k 16

    Raises:
        WorkloadError: there is none; the nearest name comes first, then all of them.
    """
    return choose(name, WORKLOADS, "among those of autosched")

"""Runners by the names that users give: ``ray``, ``ray://head:10001``."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from autosched.system.errors import OptionError

if TYPE_CHECKING:
    from autosched.fleet.cluster import RayCluster

_RAY: Final = "ray"
_SCHEME: Final = f"{_RAY}://"


def check_runner(name: str) -> str:
    """The name again; raises OptionError unless it is one."""
    if name == _RAY or name.removeprefix(_SCHEME) not in ("", name):
        return name
    raise OptionError(f"there is no runner {name!r}", hint="give ray or ray://HOST:PORT")


def fleet_of(runner: object) -> AbstractContextManager[RayCluster | None]:
    """The cluster that a name stands for; of anything but a name there is none.

    Raises:
        OptionError: an unknown name.
        FleetError, MissingPackageError: the cluster cannot be reached or used.
    """
    if not isinstance(runner, str):
        return nullcontext()
    address = None if check_runner(runner) == _RAY else runner
    from autosched.fleet.cluster import connect

    return connect(address)

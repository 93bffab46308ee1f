"""A cluster of Ray as a fleet: reaching it, and what its machines are."""

from __future__ import annotations

import logging
import pickle
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from autosched.fleet import probe as probe_module
from autosched.fleet.actors import RayCrew, first_line, lost, on_node
from autosched.fleet.errors import FleetError
from autosched.fleet.listing import MachineState
from autosched.fleet.machine import FleetMachine, fleet_target, serving
from autosched.fleet.runner import FleetRunner
from autosched.fleet.sentinel import SentinelTimes
from autosched.fleet.versions import check_versions
from autosched.fleet.worker import sentinel_times
from autosched.measure.options import MeasureOptions
from autosched.system.code_digest import code_digest
from autosched.system.optional_packages import require
from autosched.system.user_warnings import notify
from autosched.system.versions import software_versions
from codegen.closeable import Closeable
from sketch.target.gpu_targets import DeviceName
from sketch.target.target import Target

BUILDS_ONLY: Final = "autosched-builds"
"""Ray's resource of a machine that compiles for others: ``ray start --resources``."""

_SCHEME: Final = "ray://"
_CONNECT_S: Final = 5.0
_PROBE_S: Final = 60.0
# Of a listing: so long it waits for machines to be free, and so often it looks at each.
_SENTINEL_S: Final = 30.0
_SENTINELS: Final = 20


class RayCluster(Closeable):
    """A cluster of Ray that this process is connected to; a context manager.

    Attributes:
        machines: of the cluster, all with our own release.
    """

    def __init__(self, machines: Sequence[FleetMachine], own: bool) -> None:
        self.machines, self._own = tuple(machines), own

    def target(
        self, name: str = "cpu", threads: int | None = None, device: DeviceName | None = None
    ) -> Target:
        """The target that a name means here, see ``machine.fleet_target``."""
        return fleet_target(self.machines, name, threads, device)

    def runner(self, target: Target, options: MeasureOptions | None = None) -> FleetRunner:
        """A runner on all machines that serve a target; the caller closes it.

        Raises:
            FleetError: there is none.
        """
        machines = serving(self.machines, target)
        if not machines:
            kinds = ", ".join(sorted({machine.label for machine in self.machines}))
            raise FleetError(
                f"no machine of the fleet measures for {target.kind}:{target.arch} with "
                f"{target.threads} threads",
                hint=f"its machines: {kinds or 'none'}",
            )
        builders = [machine for machine in self.machines if machine.builds_only]
        return FleetRunner(RayCrew(machines, target, options or MeasureOptions(), builders))

    def states(self) -> list[MachineState]:
        """What all machines are doing; times the sentinel on those that are free."""
        import ray

        timing = [machine for machine in self.machines if not machine.builds_only]
        asked = {_sentinel_asked(machine): machine for machine in timing}
        known: dict[str, SentinelTimes] = {}
        if asked:
            ready, busy = ray.wait(list(asked), num_returns=len(asked), timeout=_SENTINEL_S)
            for reference in busy:
                ray.cancel(reference)
            for reference in ready:
                with suppress(*lost()):  # it is listed without times
                    known[asked[reference].name] = SentinelTimes(deque(ray.get(reference)))
        return [MachineState(machine, known.get(machine.name)) for machine in self.machines]

    def close(self) -> None:
        """Leave the cluster, or end it if it was started here."""
        if self._own:
            import ray

            ray.shutdown()
            self._own = False


def connect(address: str | None = None) -> RayCluster:
    """Connect to a cluster of Ray and look at its machines.

    Args:
        address: what ``ray.init`` takes, ``HOST:PORT`` or ``ray://HOST:PORT``; None: the cluster
            that this machine is part of, else one of this machine alone.

    Raises:
        FleetError: it cannot be reached, or a machine lacks our package or has another release.
        MissingPackageError: Ray is not installed.
    """
    require("ray", "measuring on a cluster", '"autosched[ray]"')
    import ray

    own = not ray.is_initialized()
    if own:
        _reach(address)
    cluster = RayCluster((), own)
    try:
        return RayCluster(_machines(), own)
    except BaseException:
        cluster.close()
        raise


def _reach(address: str | None) -> None:
    import ray

    where = "here" if address is None else f"at {address}"
    try:
        if address is not None and ":" in address:
            _check_listening(address)
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, namespace="autosched")
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        raise FleetError(
            f"no cluster of Ray can be reached {where}: {first_line(error)}",
            hint="`ray status` on its head says whether it runs; `ray start --head` starts one",
        ) from error


def _check_listening(address: str) -> None:
    """Raise OSError where nobody listens: Ray itself would try for half a minute."""
    host, _, port = address.removeprefix(_SCHEME).rpartition(":")
    with socket.create_connection((host, int(port)), timeout=_CONNECT_S):
        pass


def _machines() -> list[FleetMachine]:
    """All machines that Ray may use some CPU of."""
    import ray

    ray.cloudpickle.register_pickle_by_value(probe_module)
    nodes = {node["NodeID"]: node for node in ray.nodes() if _may_work(node)}
    asked = {_asked(name, node["Resources"]): name for name, node in nodes.items()}
    ready, late = (
        ray.wait(list(asked), num_returns=len(asked), timeout=_PROBE_S) if asked else ([], [])
    )
    found = [_seen(_host(nodes[asked[reference]]), reference) for reference in ready]
    notify([f"machine {_host(nodes[asked[reference]])} does not answer" for reference in late])
    return [machine for machine in found if machine is not None]


def _may_work(node: Mapping[str, Any]) -> bool:
    return bool(node["Alive"]) and node["Resources"].get("CPU", 0) >= 1


def _host(node: Mapping[str, Any]) -> str:
    return f"{node['NodeManagerHostname']}/{node['NodeID'][:6]}"


def _asked(node: str, resources: Mapping[str, float]) -> Any:
    import ray

    strategy = on_node(node)
    asked = ray.remote(probe_module.probe).options(num_cpus=0, scheduling_strategy=strategy)
    gpus, builds = resources.get("GPU", 0.0), BUILDS_ONLY in resources
    return asked.remote(node, int(resources["CPU"]), gpus, builds)


def _sentinel_asked(machine: FleetMachine) -> Any:
    """The sentinel, a few times; waits for the machine to be free."""
    import ray

    asked = ray.remote(sentinel_times).options(
        num_cpus=machine.cpus,
        num_gpus=machine.gpus,
        scheduling_strategy=on_node(machine.node),
        max_retries=0,
    )
    return asked.remote(machine.target, machine.gpus > 0, _SENTINELS)


def _seen(host: str, reference: Any) -> FleetMachine | None:
    """What a machine said of itself; None where it is gone, with a warning.

    Raises:
        FleetError: our package is missing there, or is another release.
    """
    import ray

    try:
        versions, content = ray.get(reference)
    except ray.exceptions.RayError as error:
        notify([f"machine {host} is left out: {first_line(error)}"])
        return None
    if not versions:
        raise FleetError(
            f"machine {host} has no package autosched: {content.decode()}",
            hint="install the same release on all machines",
        )
    check_versions(host, versions, {**software_versions(), "code": code_digest()})
    machine: FleetMachine = pickle.loads(content)
    return machine

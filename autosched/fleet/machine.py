"""A machine of the fleet as it describes itself, and which machines can serve a target."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.fleet.errors import FleetError
from autosched.records.identity import compatible
from codegen.cpu_share import usable_cpus
from codegen.host import host_target
from codegen.named_targets import named_target
from sketch.errors import TargetError
from sketch.target.gpu_targets import DeviceName, on_device
from sketch.target.target import Target


@dataclass(frozen=True, slots=True)
class FleetMachine:
    """One machine.

    Attributes:
        node: the engine's name of it.
        host: its own name.
        target: all that it has: its CPUs, or its GPU.
        cpus: that Ray may use.
        load: load average of the last minute; None: unknown.
        builds_only: it compiles for others and times nothing.
        gpus: that Ray may use; a machine with one times on it.
    """

    node: str
    host: str
    target: Target
    cpus: int
    load: float | None = None
    builds_only: bool = False
    gpus: int = 0

    @property
    def label(self) -> str:
        """What users call its kind: ``cpu:cascadelake``, ``cuda:sm_90``."""
        return label_of(self.target)

    @property
    def name(self) -> str:
        """For people, and unique: several nodes may run on one host."""
        return f"{self.host}/{self.node[:6]}"


def label_of(target: Target) -> str:
    """``cpu:cascadelake``, ``cuda:sm_90``."""
    return f"{target.kind}:{target.arch}"


def this_machine(node: str, cpus: int, gpus: float, builds_only: bool) -> FleetMachine:
    """The machine that this process runs on.

    Args:
        node: the engine's name of it.
        cpus: that the engine may use.
        gpus: that it may use; a machine with one times on it, not on its CPUs.
        builds_only: it times nothing.
    """
    target = named_target("cuda") if gpus else host_target(min(usable_cpus(), cpus))
    load = os.getloadavg()[0]
    return FleetMachine(
        node, socket.gethostname(), target, cpus, load, builds_only, min(1, int(gpus))
    )


def fleet_target(
    machines: Sequence[FleetMachine],
    name: str = "cpu",
    threads: int | None = None,
    device: DeviceName | None = None,
) -> Target:
    """The target that a name means among these machines.

    Args:
        machines: of the fleet.
        name: the label of some of them; ``cpu`` or ``cuda`` where all of that kind are alike; else
            a name that every machine knows, such as ``cpu-avx2``.
        threads: worker threads; None: as many as the machines have.
        device: of a cuda target, see ``autosched.Target``.

    Raises:
        FleetError: no machine of that kind, or several kinds of them.
        TargetError: an unknown name.
    """
    timing = [machine for machine in machines if not machine.builds_only]
    found = [m for m in timing if name in (m.label, m.target.kind) and device is None]
    if not found:
        return _named(timing, name, threads, device)
    kinds = {m.label: m.target for m in found}
    if len(kinds) > 1:
        raise FleetError(f"the fleet has several kinds of {name}", hint=_known(timing))
    counts = Counter(m.target.threads for m in found)
    target = found[0].target
    if found[0].gpus:
        return target
    if threads is None and len(counts) > 1:
        have = ", ".join(f"{n} with {k}" for k, n in sorted(counts.items()))
        raise FleetError(
            f"the machines of {name} have different numbers of threads: {have}",
            hint="say how many to use: --threads N, threads=N",
        )
    return target.with_threads(threads or target.threads)


def _named(
    machines: Sequence[FleetMachine], name: str, threads: int | None, device: DeviceName | None
) -> Target:
    if name in ("cpu", "cuda") and device is None:
        raise FleetError(f"the fleet has no machine for the target {name}", hint=_known(machines))
    try:
        target = named_target(name, threads)
    except TargetError as error:
        if name.startswith("cpu:"):
            raise FleetError(
                f"no machine of the fleet is a {name}", hint=_known(machines)
            ) from error
        raise
    return target if device is None else on_device(target, device)


def serving(machines: Sequence[FleetMachine], target: Target) -> list[FleetMachine]:
    """Machines that time candidates of a target: those that are one, else of the most common kind.

    Whether a machine has the instructions of a target of another name it says itself, when its
    worker starts.
    """
    timing = [machine for machine in machines if not machine.builds_only]
    own = [m for m in timing if compatible(m.target.with_threads(target.threads), target)]
    own = [m for m in own if m.target.threads >= target.threads]
    named = not target.card.emulated and any(label_of(target) == m.label for m in timing)
    if own or named:
        return own
    kind = "cpu:" if target.card.emulated else f"{target.kind}:"
    labels = Counter(m.label for m in timing if m.label.startswith(kind))
    return [m for m in timing if labels and m.label == labels.most_common(1)[0][0]]


def _known(machines: Sequence[FleetMachine]) -> str:
    labels = Counter(machine.label for machine in machines)
    listed = ", ".join(f"{label} ({count})" for label, count in sorted(labels.items()))
    return f"its targets: {listed or 'none'}"

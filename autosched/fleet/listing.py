"""What the machines of a fleet are doing: targets, load, noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autosched.fleet.machine import FleetMachine
from autosched.fleet.sentinel import SentinelTimes
from autosched.runtime.table import render_table

_HEADER = ("machine", "target", "threads", "load", "sentinel ms", "noise", "state")


@dataclass(frozen=True, slots=True)
class MachineState:
    """One machine now.

    Attributes:
        machine: which.
        times: of the sentinel, timed a few times; None: the machine was not free.
    """

    machine: FleetMachine
    times: SentinelTimes | None = None

    @property
    def state(self) -> str:
        """``free``, ``busy`` (another tuner has reserved it) or ``builds``."""
        if self.machine.builds_only:
            return "builds"
        return "busy" if self.times is None else "free"

    @property
    def sentinel_s(self) -> float | None:
        """What the sentinel usually takes, in seconds; None: not known."""
        return None if self.times is None else self.times.usual_s

    @property
    def noise(self) -> float | None:
        """How far the middle timing is above the usual one, as a share; None: not known."""
        return None if self.times is None else self.times.noise

    def to_json(self) -> dict[str, Any]:
        """By name; times in milliseconds."""
        machine, seconds = self.machine, self.sentinel_s
        return {
            "machine": machine.name,
            "target": machine.label,
            "threads": machine.target.threads,
            "load": machine.load,
            "sentinel_ms": None if seconds is None else 1e3 * seconds,
            "noise": self.noise,
            "state": self.state,
        }


def listing(states: Sequence[MachineState]) -> str:
    """A table, a machine a line."""
    return render_table(_HEADER, [_cells(state) for state in states], left=(0, 1, 6))


def _cells(state: MachineState) -> tuple[str, ...]:
    machine, seconds, noise = state.machine, state.sentinel_s, state.noise
    return (
        machine.name,
        machine.label,
        str(machine.target.threads),
        "" if machine.load is None else f"{machine.load:.1f}",
        "" if seconds is None else f"{1e3 * seconds:.3f}",
        "" if noise is None else f"{noise:.0%}".replace("%", " %"),
        state.state,
    )

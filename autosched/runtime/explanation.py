"""Where a network loses time: every operator against what the machine could do at best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal

from autosched.runtime.profiler import Profile, ProfileRow
from autosched.runtime.program import ExecutionPlan, StepInfo, schedule_label
from autosched.runtime.table import render_table, shorten
from autosched.system.numbers import milliseconds, significant
from autosched.system.optional_packages import data_frame
from autosched.system.stability import UNMEASURED, Stability
from sketch.html import html_table
from sketch.target.target import Target

Bound = Literal["compute", "memory", ""]
_HEADER: Final = (
    "layers", "operator", "shapes", "us", "spread %", "limit us", "lost us", "% of lost",
    "% of limit", "bound", "task", "schedule",
)  # fmt: skip
_LEFT: Final = (0, 1, 2, 9, 10, 11)
_PASSED: Final = 105.0  # percent of a limit: less is noise
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class CacheRates:
    """A cache of the machine.

    Attributes:
        size: bytes that it holds, of all threads together.
        bandwidth, writing: bytes a second that are read from it, and written to it.
    """

    size: float
    bandwidth: float
    writing: float


@dataclass(frozen=True, slots=True)
class Machine:
    """What the machine can do with the threads of the network.

    Attributes:
        flops: float32 operations a second, from a loop of fused multiply-adds.
        bandwidth: bytes a second, from a loop of loads over ``working_bytes``.
        working_bytes: the memory that the bandwidth was measured on.
        threads: worker threads, or processors of a GPU.
        on_gpu: whether it is a GPU.
        note: how the two were found, where a CPU's are measured.
        units: operations a second of tensor units, by name, from loops of their instructions.
        writing: bytes a second that are written, from a loop of copies; 0: as ``bandwidth``.
        functions: evaluations a second of functions that are many instructions, by name, from
            loops of our own code for them over vectors in the first cache.
        caches: those that are smaller than ``working_bytes``, the nearest first.
    """

    flops: float
    bandwidth: float
    working_bytes: int
    threads: int
    on_gpu: bool = False
    note: str = ""
    units: Mapping[str, float] = field(default_factory=dict)
    writing: float = 0.0
    functions: Mapping[str, float] = field(default_factory=dict)
    caches: tuple[CacheRates, ...] = ()

    def compute_s(self, info: StepInfo) -> float:
        """Seconds of the arithmetic of a step, by the algorithm that is computed; of a function in
        place of the operation that it counts as.
        """
        known = [(calls, self.functions[n]) for n, calls in info.functions if n in self.functions]
        plain = max(info.operations - sum(calls for calls, _ in known), 0.0)
        called = sum(calls / rate for calls, rate in known)
        return plain / self.units.get(info.unit, self.flops) + called

    def memory_s(self, info: StepInfo, times: int = 1) -> float:
        """Seconds of its least traffic, if as much of its data as a cache holds is there.

        Args:
            info: the step.
            times: how often it is executed in one run: each time the caches may hold as much.
        """
        everything, written = info.bytes / times, info.written / times
        seconds = nearer = 0.0
        for level in (*self.caches, self._farthest):
            here = min(level.size, everything) - nearer
            if here <= 0:
                break
            whole = (everything - written) / level.bandwidth + written / level.writing
            seconds += here / everything * whole
            nearer += here
        return seconds * times

    @property
    def _farthest(self) -> CacheRates:
        return CacheRates(math.inf, self.bandwidth, self.writing or self.bandwidth)

    @property
    def workers(self) -> str:
        """What computes, for people."""
        return f"{'processors' if self.on_gpu else 'threads'} {self.threads}"

    @property
    def how(self) -> str:
        """How the bandwidth was found, for people."""
        return self.note or (
            f"reading {self.working_bytes / 1e6:.4g} MB again and again: the memory of this network"
        )


@dataclass(frozen=True, slots=True)
class ExplainRow:
    """One operator against its limit.

    Attributes:
        layers, op, shapes, task, schedule, spread_percent: as in a profile.
        microseconds: time in one run.
        limit_us: the larger of the times of the arithmetic and of the least traffic at best; 0
            where neither is known (the host, the rest).
        lost_us: time above the limit; 0 where the operator is faster than it.
        percent: share of the run's time.
        lost_percent: share of all lost time.
        limit_percent: limit over time, the efficiency.
        bound: which of the two limits is the larger one.
        gflops, gigabytes_per_s: what was reached, of operations and least traffic.
        algorithm: a variant and its error; "" where the task is computed as it is written.
    """

    layers: str
    op: str
    shapes: str
    microseconds: float
    limit_us: float
    lost_us: float
    percent: float
    lost_percent: float
    limit_percent: float
    bound: Bound
    gflops: float
    gigabytes_per_s: float
    task: str
    schedule: str
    spread_percent: float | None = None
    algorithm: str = ""

    def to_json(self) -> dict[str, Any]:
        """The row by column."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


@dataclass(frozen=True, slots=True)
class Explanation:
    """All operators of a network and what is between them, most time lost first.

    Attributes:
        name: of the network.
        rows: sorted by ``lost_us``.
        total_us, lost_us: sums over the rows.
        best_us: the rest of the total: what the limits add up to, with the own time of an operator
            that is faster than its limit.
        machine: what the limits are computed from.
        stability: how far the times can be believed.
        interrupted: what whole runs took, see ``Profile``.
    """

    name: str
    rows: tuple[ExplainRow, ...]
    machine: Machine
    stability: Stability = UNMEASURED
    interrupted: str = ""

    @property
    def total_us(self) -> float:
        return sum(row.microseconds for row in self.rows)

    @property
    def best_us(self) -> float:
        return self.total_us - self.lost_us

    @property
    def lost_us(self) -> float:
        return sum(row.lost_us for row in self.rows)

    def to_pandas(self) -> Any:
        """A pandas DataFrame of the rows, ``attrs["stability"]`` of all.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        rows = [row.to_json() for row in self.rows]
        return data_frame(rows, attributes={"stability": self.stability.to_json()})

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        machine = {item.name: getattr(self.machine, item.name) for item in fields(self.machine)}
        machine["caches"] = [asdict(cache) for cache in self.machine.caches]
        return {
            "name": self.name,
            "total_us": self.total_us,
            "best_us": self.best_us,
            "lost_us": self.lost_us,
            "machine": machine,
            "stability": self.stability.to_json(),
            "rows": [row.to_json() for row in self.rows],
        }

    def __str__(self) -> str:
        table = render_table(_HEADER, [_cells(row) for row in self.rows], _LEFT)
        return "\n".join([self._title(), table, *self._notes()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        cells = [_cells(row) for row in self.rows]
        return html_table(self._title(), _HEADER, cells, _LEFT, self._notes())

    def _title(self) -> str:
        return (
            f"{self.name}: {milliseconds(self.total_us / 1e6)} ms, at best "
            f"{milliseconds(self.best_us / 1e6)} ms, lost {milliseconds(self.lost_us / 1e6)} ms; "
            "most lost first"
        )

    def _notes(self) -> list[str]:
        machine = self.machine
        units = "".join(f", or {f / 1e9:.4g} on {u}" for u, f in machine.units.items())
        rates = ", ".join(f"{name} {r / 1e9:.4g}" for name, r in machine.functions.items())
        units += f", and functions at so many billions a second: {rates}" if rates else ""
        units += "," if units else ""
        written = f", what is written {machine.writing / 1e9:.4g} GB/s" if machine.writing else ""
        caches = "".join(
            f"; up to {cache.size / 1e6:.4g} MB of them at {cache.bandwidth / 1e9:.4g} GB/s, "
            f"written {cache.writing / 1e9:.4g}"
            for cache in machine.caches
        )
        limit = (
            f"limit: the larger of FLOPs at {machine.flops / 1e9:.4g} GFLOPS (float32 multiply-adds"
            f" in registers, {machine.workers}){units} and inputs, constants and outputs, each "
            f"once, at {machine.bandwidth / 1e9:.4g} GB/s ({machine.how}){written}{caches}"
        )
        notes = [str(self.stability), self.interrupted, limit, self._passed()]
        return [note for note in notes if note]

    def _passed(self) -> str:
        """Which operators are faster than their limits, and what that means."""
        passed = [row for row in self.rows if row.bound and row.limit_percent > _PASSED]
        named = ", ".join(f"{row.op} {row.limit_percent:.0f} %" for row in passed[:_NAMED])
        more = f" and {len(passed) - _NAMED} more" if len(passed) > _NAMED else ""
        return (
            f"faster than their limits, and nothing lost: {named}{more}; either a kernel leaves "
            "work out, such as products with zeros of a border, or other programs slowed the loops "
            "that the limits are measured with"
            if passed
            else ""
        )


def measured_machine(
    target: Target,
    working_bytes: int,
    units: Iterable[str] = (),
    functions: Iterable[str] = (),
) -> Machine:
    """This machine, measured with the threads of ``target``; some seconds, once for a process.

    Args:
        target: this machine.
        working_bytes: the memory that the bandwidth is measured on.
        units: names of tensor units to measure, too.
        functions: names of functions of float32 to measure, too.

    Raises:
        TargetError: ``target`` is not this machine.
    """
    from autosched.runtime.probes.bandwidth import (
        measured_bandwidth,
        measured_write_bandwidth,
        rounded_size,
    )
    from autosched.runtime.probes.operations import measured_calls
    from autosched.runtime.probes.peak import measured_peak, measured_unit_peak

    size = rounded_size(working_bytes)
    reading = measured_bandwidth(target, size)
    writing = measured_write_bandwidth(target, size)

    def cache(size: int) -> CacheRates:
        """Measured on half of it, which is there for certain; no slower than what is farther."""
        half = size // 2
        near, into = measured_bandwidth(target, half), measured_write_bandwidth(target, half)
        return CacheRates(size, max(near, reading), max(into, writing))

    # What the first cache holds is read sooner than a step starts.
    sizes = {target.l2_bytes * target.threads, target.l3_bytes}
    return Machine(
        measured_peak(target),
        reading,
        size,
        target.threads,
        units={unit: measured_unit_peak(target, unit) for unit in units},
        writing=writing,
        functions={name: measured_calls(target, name) for name in functions},
        caches=tuple(cache(each) for each in sorted(sizes) if 0 < each < size),
    )


def explain_program(program: ExecutionPlan, profile: Profile, machine: Machine) -> Explanation:
    """The operators of a profile against the machine.

    Args:
        program: what was profiled.
        profile: its times.
        machine: the limits.
    """
    infos = [step.info for step in program.steps]
    traffic = [info.bytes for info in infos]
    limits = [
        (machine.compute_s(info), machine.memory_s(info, times))
        for info, times in zip(infos, _executions(program), strict=True)
    ]
    rows = [*profile.rows, profile.rest]
    bounds = [(1e6 * max(both), _bound(*both)) for both in limits] + [(0.0, _bound(0.0, 0.0))]
    everything = sum(
        max(0.0, row.microseconds - limit) for row, (limit, _) in zip(rows, bounds, strict=True)
    )
    found = [
        _row(row, limit, bound, moved, everything)
        for row, (limit, bound), moved in zip(rows, bounds, [*traffic, 0.0], strict=True)
    ]
    ordered = tuple(sorted(found, key=lambda row: -row.lost_us))
    return Explanation(program.name, ordered, machine, profile.stability, profile.interrupted)


def _executions(program: ExecutionPlan) -> list[int]:
    """How often each step is executed in one run."""
    times = [1] * len(program.steps)
    for loop in program.loops:
        times[loop.first : loop.first + loop.count] = [loop.trips] * loop.count
    return times


def _bound(compute_s: float, memory_s: float) -> Bound:
    if compute_s == memory_s == 0.0:
        return ""
    return "compute" if compute_s >= memory_s else "memory"


def _row(
    row: ProfileRow, limit_us: float, bound: Bound, moved: float, lost_us: float
) -> ExplainRow:
    lost = max(0.0, row.microseconds - limit_us)
    spent = max(row.microseconds, 1e-9)
    return ExplainRow(
        layers=row.layers,
        op=row.op,
        shapes=row.shapes,
        microseconds=row.microseconds,
        limit_us=limit_us,
        lost_us=lost,
        percent=row.percent,
        lost_percent=100.0 * lost / lost_us if lost_us > 0 else 0.0,
        limit_percent=100.0 * limit_us / spent,
        bound=bound,
        gflops=row.gflops,
        gigabytes_per_s=moved / spent / 1e3,
        task=row.task,
        schedule=row.schedule,
        spread_percent=row.spread_percent,
        algorithm=row.algorithm,
    )


def _cells(row: ExplainRow) -> tuple[str, ...]:
    limited = row.bound != ""
    return (
        shorten(row.layers, 40),
        shorten(row.op, 28),
        shorten(row.shapes, 44),
        significant(row.microseconds, 1),
        "" if row.spread_percent is None else f"{row.spread_percent:.0f}",
        significant(row.limit_us, 1) if limited else "",
        significant(row.lost_us, 1),
        f"{row.lost_percent:.1f}",
        f"{row.limit_percent:.0f}" if limited else "",
        row.bound,
        row.task[:8],
        schedule_label(row.schedule, row.algorithm),
    )

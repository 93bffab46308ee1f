"""Why a task is as fast as it is: its schedule, and its time against what the machine can do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from autosched.measure.result import Failure, Timing
from autosched.records.accuracy import Accuracy
from autosched.records.best import rank, select
from autosched.records.error_budget import held_to
from autosched.records.identity import compatible
from autosched.records.record import Record
from autosched.records.store import AnyLog, open_store
from autosched.report.reasons import Reasons, reasons_of
from autosched.runtime.backend import runtime_of
from autosched.search.by_position import by_position
from autosched.search.recall import Recalled, usable
from autosched.search.unmeasured import predictable, predicted
from autosched.system.stability import EMULATED, UNKNOWN, Stability, relative_deviation, share
from autosched.system.user_warnings import notify
from autosched.tasks.compulsory_traffic import compulsory_bytes
from codegen.backend import backend_of
from costmodel.extract import draft_seconds
from sketch.nest.printer import print_nest
from sketch.population.population import from_rows

if TYPE_CHECKING:
    from autosched.tasks.candidate import Candidate
    from autosched.tasks.spec import TaskSpec


def explain(
    task: TaskSpec,
    log: AnyLog | None = None,
    peak_flops: float | None = None,
    accuracy: Accuracy = "default",
) -> str:
    """Program, best schedule and its loops, time and bounds, errors, failures.

    Args:
        task: what is explained.
        log: its path or URL; None: there is none.
        peak_flops: of the machine; None: measured now, of the tensor unit where the schedule uses
            one, or nominal for a GPU.
        accuracy: records of variants that it does not allow have failed.
    """
    records = _records(task, log, accuracy)
    ranked = list(islice(usable(task, records), 2))
    found = ranked[0] if ranked else None
    candidate, why = (found.candidate, "") if found else _predicted(task, accuracy)
    if peak_flops is None and backend_of(task.target).missing(task.target) is None:
        peak_flops = runtime_of(task.target).peaks(task.target).of(candidate.unit)
    seconds = _measured_s(task, found)
    parts = [
        str(task),
        _schedule(candidate, why),
        _times(task, candidate, seconds, peak_flops),
        str(reasons_of(task, candidate, ranked, records)),
        "" if found is None or math.isinf(seconds) else _stability(found.record),
        _trials(task, records),
    ]
    return "\n\n".join(part for part in parts if part)


def reasons(task: TaskSpec, log: AnyLog | None = None, accuracy: Accuracy = "default") -> Reasons:
    """What binds the best schedule, what drives its score, and how it differs from the runner-up.

    Args:
        task: what is explained.
        log: its path or URL; None: there is none.
        accuracy: records of variants that it does not allow have failed.
    """
    records = _records(task, log, accuracy)
    ranked = list(islice(usable(task, records), 2))
    candidate = ranked[0].candidate if ranked else _predicted(task, accuracy)[0]
    return reasons_of(task, candidate, ranked, records)


def _records(task: TaskSpec, log: AnyLog | None, accuracy: Accuracy) -> list[Record]:
    """Of a log, as ``accuracy`` allows them; warns of one that does not exist or has no record of
    the task, and of lines that cannot be read.
    """
    if log is None:
        return []
    store = open_store(log)
    read = store.read((task.key,))
    unmatched = read.unmatched(store.name, f"task {task.name}")
    notify((*read.warnings, *filter(None, [unmatched])))
    return held_to(by_position(task, read.records), task, accuracy)


def _measured_s(task: TaskSpec, found: Recalled | None) -> float:
    """Seconds on the task's target; infinite where it was not measured there."""
    own = found is not None and compatible(found.record.target, task.target)
    return found.seconds if found is not None and own else math.inf


def _predicted(task: TaskSpec, accuracy: Accuracy) -> tuple[Candidate, str]:
    """What is compiled without a record, and why if it is of a variant."""
    here = backend_of(task.target).missing(task.target) is None
    measured = here and runtime_of(task.target).in_process
    others = () if accuracy == "as written" else predictable(task, measured)
    first = predicted(task, variants=others)[0]
    if first.candidate.sketch.variant == task.variants[0].name:
        return first.candidate, ""
    why = f"chosen by the draft model, which predicts {first.share:.0%} of the time as written"
    held = "; held to the error budget when it is compiled" if measured else ""
    return first.candidate, f"{why}{held}\n"


def _schedule(candidate: Candidate, why: str) -> str:
    values = ", ".join(f"{name}={value}" for name, value in candidate.named.items())
    nest = print_nest(candidate.nest())
    return f"schedule: variant {candidate.sketch.variant}, {values}\n{why}{nest}"


def _times(task: TaskSpec, candidate: Candidate, seconds: float, peak_flops: float | None) -> str:
    draft_s = float(draft_seconds(from_rows(candidate.sketch, [candidate.values]), once=True)[0])
    lines = [f"draft estimate {draft_s * 1e3:.4g} ms (ranks schedules, is no prediction)"]
    if peak_flops is not None:
        limit_s = task.flops / peak_flops
        lines.append(f"FLOPs / peak    {limit_s * 1e3:.4g} ms at {peak_flops / 1e9:.4g} GFLOPS")
    bytes_moved = compulsory_bytes(task.dag)
    intensity = task.flops / bytes_moved
    lines.append(f"least traffic   {bytes_moved / 1e6:.4g} MB, {intensity:.3g} FLOP per byte")
    if math.isinf(seconds):
        return "\n".join([*lines, "measured        never on this target"])
    speed = task.flops / seconds
    share = "" if peak_flops is None else f", {speed / peak_flops:.1%} of the peak"
    lines.append(f"measured        {seconds * 1e3:.4g} ms, {speed / 1e9:.4g} GFLOPS{share}")
    lines.append(f"                {bytes_moved / seconds / 1e9:.4g} GB/s of the least traffic")
    return "\n".join(lines)


def _with_spread(seconds: float, record: Record) -> str:
    times = record.result.seconds if isinstance(record.result, Timing) else ()
    spread = share(relative_deviation(times))
    return f"{seconds * 1e3:.4g} ms{f' ± {spread}' if spread else ''}"


def _stability(record: Record) -> str:
    """How far the measured time can be believed: the runs of its last timing."""
    times = record.result.seconds if isinstance(record.result, Timing) else ()
    conditions = EMULATED if record.target.card.emulated else UNKNOWN
    return f"time of the log    {Stability.of(times, conditions)}"


def _trials(task: TaskSpec, records: Sequence[Record]) -> str:
    mine = select(records, task.key, task.target)
    if not mine:
        return ""
    failures = [r.result for r in mine if isinstance(r.result, Failure)]
    lines = [f"{len(mine)} records, {len(failures)} failures; fastest:"]
    for seconds, record in rank(mine)[:5]:
        error = record.result.error if isinstance(record.result, Timing) else None
        checked = "not checked" if error is None else f"error {error:.1e}"
        checked += _variant_errors(record)
        values = ", ".join(
            f"{name}={value}" for name, value in named_decisions(task, record).items()
        )
        lines.append(f"  {_with_spread(seconds, record)} ({record.variant}, {checked}): {values}")
    causes = list(dict.fromkeys(f"{f.stage}: {f.kind}: {f.message}" for f in failures))
    lines += [f"  failed: {cause}" for cause in causes[:3]]
    return "\n".join(lines)


def _variant_errors(record: Record) -> str:
    """Of its variant, on normal data and on data with a large mean."""
    errors = record.result.variant_errors if isinstance(record.result, Timing) else ()
    if not errors:
        return ""
    return f", of the variant {' and '.join(f'{error:.1e}' for error in errors)}"


def named_decisions(task: TaskSpec, record: Record) -> Mapping[str, int]:
    """As the program names them; by position where the record does not replay."""
    try:
        found = record.candidate(task.variant(record.variant).dag, task.target)
        return found.named
    except Exception:  # the boundary to what a log holds; who replays the record says why
        return record.decisions

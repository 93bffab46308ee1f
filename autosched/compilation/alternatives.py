"""What else tasks may be compiled as, where their variants make too large errors in a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autosched.compilation.recorded import other_variants
from autosched.compilation.scheduled import Scheduled
from autosched.compilation.unmeasured import all_unmeasured

if TYPE_CHECKING:
    from autosched.compilation.side_processes import SideProcesses
    from autosched.measure.result import CacheState
    from autosched.records.record import Record


def alternatives(
    items: Sequence[Scheduled],
    records: Sequence[Record],
    state: CacheState,
    quick: bool,
    processes: SideProcesses | None,
) -> list[list[Scheduled]]:
    """Of each task, the best recorded schedules of other variants; and the task as it is written,
    which the draft model finds a schedule of where no record does.

    Args:
        items: schedules of the tasks.
        records: that are allowed, of a log.
        state: cache state whose times are preferred.
        quick: the draft model sees few candidates.
        processes: share in it; None: there are none.
    """
    found = [list(other_variants(item, records, state)) for item in items]
    lacking = [
        number
        for number, (item, others) in enumerate(zip(items, found, strict=True))
        if item.of_variant and all(other.of_variant for other in others)
    ]
    unknown = [number for number in lacking if not items[number].predicted]
    drafts = all_unmeasured({items[n].task: "as written" for n in unknown}, quick, True, processes)
    for number, draft in zip(unknown, drafts, strict=True):
        found[number].insert(0, draft)
    for number in lacking:
        item = items[number]
        if item.predicted:  # the last one of them is that
            found[number].insert(0, Scheduled.unmeasured(item.task, item.predicted[-1:]))
    return found

"""The schedule that is chosen for a task, where it comes from, and its kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from autosched.measure.result import Timing
from autosched.runtime.backend import runtime_of
from autosched.search.recall import Recalled, unbuildable
from autosched.search.unmeasured import Predicted
from autosched.tasks.candidate import Candidate
from autosched.tasks.spec import TaskSpec
from sketch.errors import AutoschedError
from sketch.population.population import from_rows

if TYPE_CHECKING:
    from autosched.records.record import Record
    from codegen.kernel import CompiledKernel

Source = Literal["record", "release", "model"]


@dataclass(frozen=True, slots=True, eq=False)
class Scheduled:
    """A task, the candidate chosen for it, and where that comes from.

    Attributes:
        source: "record": the best of a log; "release": of the records that come with the release;
            "model": what the draft model likes best.
        recalled: what the log says of it, None for "model".
        predicted: for "model": this candidate and those to compile, in turn, if it is refused.
        errors: of its kernel, where it is of a variant and was checked, or the largest that are
            recorded of its variant.
        refused: why the last one before it was refused, "" if none was.
        short_sums: its long sums of products lose fewer digits than usual.
    """

    task: TaskSpec
    candidate: Candidate
    source: Source
    recalled: Recalled | None = None
    predicted: tuple[Predicted, ...] = ()
    errors: tuple[float, ...] = ()
    refused: str = ""
    short_sums: bool = False

    @classmethod
    def unmeasured(
        cls, task: TaskSpec, predicted: tuple[Predicted, ...], refused: str = ""
    ) -> Scheduled:
        """The first of what the draft model likes best."""
        first = predicted[0].candidate
        return cls(task, first, "model", predicted=predicted, refused=refused)

    @property
    def checked(self) -> bool:
        """Whether its kernel was compared with the oracle when it was timed; in a release, that was
        another one's.
        """
        mine = self.source == "record" and not self.short_sums
        return mine and self.recalled is not None and self.recalled.checked

    @property
    def of_variant(self) -> bool:
        """Whether it computes the task in another way than it is written."""
        return self.candidate.sketch.variant != self.task.variants[0].name

    @property
    def judged_by_errors(self) -> bool:
        """Whether it is checked on the data that its errors are measured on: they are not known.

        Kernels that do not run in this process are of variants that need no such measurement.
        """
        here = runtime_of(self.task.target).in_process
        return here and bool(self.predicted) and self.of_variant and not self.errors

    @property
    def known_errors(self) -> tuple[float, ...]:
        """Of the kernel, or of what is recorded of it: on normal data, and with a large mean."""
        return self.errors or _recorded_errors(self.recalled)

    @property
    def unit(self) -> str:
        """The name of the tensor unit that its contraction is computed on; "": plain vectors."""
        return self.candidate.unit

    @property
    def computed_flops(self) -> float:
        """Operations of its variant; 0 where the task is computed as it is written."""
        return self.candidate.sketch.dag.flops if self.of_variant else 0.0

    @property
    def algorithm(self) -> str:
        """For people: its variant, and the errors of that or the prediction that it was chosen by;
        where the task is computed as it is written, "" or which variant was refused.
        """
        if not self.of_variant:
            return f"as written; {self.refused}" if self.refused else ""
        notes = [self.candidate.sketch.variant]
        if errors := self.known_errors:
            notes.append(f"error {max(errors):.1e}")
        if self.recalled is not None and self.refused:
            notes.append(self.refused)
        if self.predicted:
            notes.append(f"predicted {self.predicted[0].share:.0%} of the time as written")
        return ", ".join(notes)


def _recorded_errors(recalled: Recalled | None) -> tuple[float, ...]:
    result = None if recalled is None else recalled.record.result
    if not isinstance(result, Timing):
        return ()
    return result.variant_errors or (() if result.error is None else (result.error,))


class UnbuildableRecordError(AutoschedError):
    """No code can be made of a recorded candidate.

    Attributes:
        record: where it comes from.
    """

    def __init__(self, record: Record, error: Exception) -> None:
        super().__init__(unbuildable(record, error))
        self.record = record


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """The kernel of a scheduled task.

    Attributes:
        item: task and schedule.
        kernel: its code.
        strides: of the arguments that do not lie in one piece, in elements.
    """

    item: Scheduled
    kernel: CompiledKernel
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def expected_seconds(item: Scheduled) -> float:
    """What the log says that a candidate takes, or what the draft model thinks."""
    from costmodel.extract import draft_seconds

    if item.recalled is not None:
        return item.recalled.seconds
    population = from_rows(item.candidate.sketch, [item.candidate.values])
    return float(draft_seconds(population, once=True)[0])

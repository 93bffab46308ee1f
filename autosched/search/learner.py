"""What all tasks of a run learn together: one dataset, one model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autosched.measure.result import Failure, MeasureResult
from autosched.search.options import LearnerOptions
from autosched.search.scorer import ModelScorer
from autosched.search.task_process import TaskProcess
from autosched.tasks.candidate import Candidate
from costmodel.checked import checked_head_start, checked_preparation, checked_process_share
from costmodel.dataset import Dataset
from sketch.population.population import from_rows
from sketch.population.uncollected import uncollected

if TYPE_CHECKING:
    from costmodel.errors import ModelFaultError
    from costmodel.extra_feature import ExtraFeature
    from costmodel.extract.extra import ExtraColumns
    from costmodel.features import Features
    from costmodel.model import CostModel


class Learner:
    """Turns results into training data, and decides when the model learns.

    Args:
        model: shared by all tasks.
        model_trials: measured candidates at which model and draft weigh the same.
        options: when it learns, and how far it is trusted.
        extra_features: that the model gets beside those of the table; one that fails is left out.
    """

    def __init__(
        self,
        model: CostModel,
        model_trials: int = 4,
        options: LearnerOptions | None = None,
        extra_features: Sequence[ExtraFeature] = (),
    ) -> None:
        from costmodel.extract.extra import ExtraColumns

        self._model, self._model_trials = model, model_trials
        self._options = options or LearnerOptions()
        self._columns = ExtraColumns(extra_features, self._do_without)
        self._once: list[str] = []  # faults of extra features, and of what the model says of itself
        self._dataset = Dataset()
        self._successes: dict[str, int] = {}
        self._trials: dict[str, int] = {}  # whose features are in the dataset, by task
        self._learned = 0
        self._prepared = False
        self._told: list[tuple[str, Sequence[Candidate], Sequence[MeasureResult]]] = []
        self._untaught = False  # the last update failed
        self._faulty = False  # in this round
        self._faults: dict[str, tuple[str, int]] = {}  # by what failed: the first text, rounds
        self._process_share = 0.0
        if self._options.process:
            self._process_share = self._said_by(checked_process_share, "no process ranks")
        self._processes: dict[str, TaskProcess] = {}  # by task

    @property
    def dataset(self) -> Dataset:
        """All programs told so far."""
        merged: dict[str, tuple[list[Candidate], list[MeasureResult]]] = {}
        for task_key, candidates, results in self._told:
            own = merged.setdefault(task_key, ([], []))
            own[0].extend(candidates)
            own[1].extend(results)
        for task_key, (candidates, results) in merged.items():
            before = self._trials.get(task_key, 0)
            for taught in training_data(candidates, results, self._columns):
                trials = [before + n for n in taught.members]
                self._dataset.append(task_key, taught.features, taught.seconds, trials)
            self._trials[task_key] = before + len(candidates)
        self._told.clear()
        return self._dataset

    def scorer(self, task_key: str) -> ModelScorer:
        """Scores rows of a task; follows the model as it learns."""
        return ModelScorer(
            self._model, lambda: self.trust(task_key), self._leave_out, self._columns,
            self._options.draft, self._process(task_key), self._process_share,
        )  # fmt: skip

    def _process(self, task_key: str) -> TaskProcess | None:
        """Of a task; None where the model leaves it no share."""
        if not self._process_share:
            return None
        return self._processes.setdefault(task_key, TaskProcess(self._options.draft))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was wrong with the model, and in how many rounds the draft ranked without it.

        Extra features that failed come first, and a head start that is no number.
        """
        return (
            *self._once,
            *(
                f"{text} | the draft model ranked without it in {count} round{'s' * (count != 1)}"
                for text, count in self._faults.values()
            ),
        )

    @property
    def faults(self) -> tuple[str, ...]:
        """What was wrong with the model and the extra features so far, each kind once."""
        return (*self._once, *(text for text, _ in self._faults.values()))

    def begin_round(self) -> None:
        """A batch is about to be chosen: a model that failed before gets another chance."""
        self._faulty = False
        if self._untaught:
            self._count("update", "")

    def _do_without(self, name: str, text: str) -> None:
        """Go on without an extra feature, and learn again without what it gave."""
        self._once.append(f"{text} | the search goes on without this feature")
        self._dataset.clear_feature(name)
        self._learned = 0

    def _leave_out(self, error: ModelFaultError) -> None:
        """Do without the model for the rest of the round."""
        if not self._faulty:
            self._faulty = True
            self._count("predict", str(error))

    def _count(self, what: str, text: str) -> None:
        first, rounds = self._faults.get(what, (text, 0))
        self._faults[what] = (first, rounds + 1)

    def tell(
        self, task_key: str, candidates: Sequence[Candidate], results: Sequence[MeasureResult]
    ) -> None:
        """Add results of one task to the data; the model learns in ``learn``.

        Features are extracted when the model learns, of all new rows of a sketch at once: the next
        batch can be compiled meanwhile.
        """
        self._told.append((task_key, candidates, results))
        good = sum(not isinstance(result, Failure) for result in results)
        self._successes[task_key] = self._successes.get(task_key, 0) + good
        if process := self._process(task_key):
            process.tell(candidates, results)

    def scale(self, task_key: str, factor: float) -> None:
        """Multiply all times of a task that were told."""
        self.dataset.scale(task_key, factor)
        if process := self._process(task_key):
            process.scale(factor)

    @property
    def may_wait(self) -> bool:
        """Whether the next batch can be chosen before the last one is learned."""
        return self._learned >= self._options.defer

    def prepare(self) -> None:
        """Let the model do once what it can do before there is anything to learn."""
        from costmodel.errors import ModelFaultError

        if self._prepared:
            return
        self._prepared = True
        try:
            checked_preparation(self._model)
        except ModelFaultError as error:
            self._once.append(f"{error} | the search goes on")

    def learn(self, least: int = 1) -> None:
        """Update the model, if there is enough new data.

        A model that fails is left out until an update succeeds.

        Args:
            least: new programs that an update needs, but for the first one: where many are on their
                way, those that are measured meanwhile were chosen without it anyway.
        """
        with uncollected():
            self._learn(least)

    def _learn(self, least: int) -> None:
        from costmodel.checked import checked_update
        from costmodel.errors import ModelFaultError

        count = len(self._dataset) + sum(len(results) for _, _, results in self._told)
        grown = self._options.growth * self._learned + 1
        enough = self._learned + (max(grown, least) if self._learned else 1)
        if sum(self._successes.values()) and count >= enough:
            dataset = self.dataset
            self._learned = count
            try:
                checked_update(self._model, dataset)
                self._untaught = False
            except ModelFaultError as error:
                self._untaught = True
                self._faults.setdefault("update", (str(error), 0))

    def trust(self, task_key: str) -> float:
        """Share of the model in the ranking of a task's rows, from 0 (the draft alone) to 1."""
        if self._untaught or self._faulty:
            return 0.0
        own = self._successes.get(task_key, 0)
        foreign = sum(self._successes.values()) - own
        known = own + self._options.foreign * foreign + self._head_start()
        return known / max(1e-9, known + self._model_trials)

    def _head_start(self) -> float:
        """What a model that was trained before the run says that this is worth."""
        return self._said_by(checked_head_start, "it counts as no candidates")

    def _said_by(self, ask: Callable[[CostModel], float], otherwise: str) -> float:
        """What the model says of itself; 0 where it says nonsense, which is told once."""
        from costmodel.errors import ModelFaultError

        try:
            return ask(self._model)
        except ModelFaultError as error:
            if (text := f"{error} | {otherwise}") not in self._once:
                self._once.append(text)
            return 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Taught:
    """Programs of one sketch.

    Attributes:
        members: [P], their places among the candidates.
        features: of the P programs.
        seconds: [P], None: failed.
    """

    members: list[int]
    features: Features
    seconds: list[float | None]


def training_data(
    candidates: Sequence[Candidate], results: Sequence[MeasureResult], columns: ExtraColumns
) -> Iterator[Taught]:
    """What candidates of one task teach, sketch by sketch."""
    groups: dict[str, list[int]] = {}
    for n, candidate in enumerate(candidates):
        groups.setdefault(candidate.sketch.key, []).append(n)
    for members in groups.values():
        rows = [candidates[n].values for n in members]
        features = columns.features_of(from_rows(candidates[members[0]].sketch, rows))
        yield Taught(members, features, [_seconds(results[n]) for n in members])


def _seconds(result: MeasureResult) -> float | None:
    return None if isinstance(result, Failure) else result.median

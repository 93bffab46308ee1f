"""What ``torch.compile(..., backend="autosched", options={...})`` takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import Any, Final, Literal, get_args

from autosched.api import AnyTarget, resolve_target
from autosched.network_source import PathText
from autosched.records.accuracy import ACCURACIES, Accuracy
from autosched.records.store import open_store
from autosched.system.errors import OptionError
from autosched.system.limits import check_choice, check_kinds, check_number
from autosched.tuning.options import EFFORTS, Effort, parse_budget
from codegen.denormals import DENORMALS, Denormals

CacheChoice = bool | PathText
Budget = str | float
TuneWhen = Literal["first", "background"]
# What is looked for among the options, and is said in another way.
_ELSEWHERE: Final = {
    "dynamic": "torch.compile(..., dynamic=True)",
    "quick": 'options={"effort": "quick"}',
}


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """How graphs are compiled: the options by name.

    Attributes:
        target: a name that ``autosched.Target`` knows, or a target.
        threads: worker threads, instead of the target's.
        log: a tuning log to take schedules from.
        budget: each graph is tuned for so long when it is compiled, "2m" or seconds; None: it is
            not.
        trials: or for so many trials, those of earlier runs in the log included.
        tune: "first": before a graph runs; "background": it runs at once, and is tuned meanwhile in
            a process of low priority (for 10 minutes without budget and trials), whose kernels are
            used from then on.
        effort, denormals, accuracy: see ``autosched.compile``.
        shapes: sets of input shapes that a graph is compiled for; with others torch runs it.
        cache: a folder in which compiled graphs are kept for other processes; True: one in the
            user's home; False: they are not kept.
        cache_bytes: of that folder; the files that were used longest ago go.
        quiet: say nothing on stderr while a graph is tuned before it runs.

    Raises:
        OptionError: a value that makes no sense.
        RecordError: ``log`` is no name of a log.
    """

    target: AnyTarget = "cpu"
    threads: int | None = None
    log: PathText | None = None
    budget: Budget | None = None
    trials: int | None = None
    tune: TuneWhen = "first"
    effort: Effort = "draft"
    denormals: Denormals = "flush"
    accuracy: Accuracy = "default"
    shapes: int = 16
    cache: CacheChoice = True
    cache_bytes: int = 4 << 30
    quiet: bool = False

    def __post_init__(self) -> None:
        check_kinds(self)
        resolve_target(self.target, self.threads)
        check_choice("effort", self.effort, EFFORTS)
        check_choice("tune", self.tune, get_args(TuneWhen))
        check_choice("denormals", self.denormals, DENORMALS)
        check_choice("accuracy", self.accuracy, ACCURACIES)
        for name in ("trials", "shapes"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 1, math.inf)
        check_number("cache_bytes", self.cache_bytes, 0, math.inf)
        if self.log is not None:
            open_store(self.log)
        if not isinstance(self.cache, bool | str | PathLike):
            raise OptionError(f"cache is {self.cache!r}", hint="give a folder, True or False")
        if self.budget is not None:
            parse_budget(self.budget)
        if self.tunes and self.tune == "first" and self.log is None:
            raise OptionError("budget and trials need a log", hint='give "log": "model.jsonl"')

    @property
    def tunes(self) -> bool:
        """Whether graphs are tuned, now or later."""
        limited = self.budget is not None or self.trials is not None
        return limited or self.tune == "background"

    def without_tuning(self) -> BackendOptions:
        """The same for code that is there at once."""
        return replace(self, budget=None, trials=None, tune="first")

    @property
    def measures(self) -> bool:
        """Whether compiling adds to the log."""
        return self.tunes or self.effort == "quick"


def backend_options(given: Mapping[str, Any] | None) -> BackendOptions:
    """The options of ``torch.compile``, checked.

    Raises:
        OptionError: an option that does not exist, or a value that makes no sense.
        TargetError: an unknown target.
    """
    chosen = dict(given or {})
    names = [item.name for item in fields(BackendOptions)]
    for name in chosen:
        if name in _ELSEWHERE:
            raise OptionError(f"option {name!r} is unknown", hint=f"give {_ELSEWHERE[name]}")
        check_choice("option", name, names)
    return BackendOptions(**chosen)


def check_mode(mode: str | None) -> None:
    """Raise OptionError for a mode of ``torch.compile``: they are of torch's own back end."""
    if mode is not None:
        raise OptionError(
            f"mode {mode!r} is one of torch's own back end",
            hint='leave it out; options={"effort": "quick"} measures schedules, and '
            '{"budget": "10m", "log": "model.jsonl"} tunes',
        )

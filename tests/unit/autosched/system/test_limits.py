"""Options of any class refuse values of other types, and numbers that no run could use."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from autosched.measure.options import MeasureOptions
from autosched.search.options import (
    BanditOptions,
    EvolutionOptions,
    FinishOptions,
    GeneticOptions,
    LearnerOptions,
    SearchOptions,
)
from autosched.search.space_options import SpaceOptions
from autosched.system.errors import OptionError
from autosched.tuning.options import SchedulerOptions, TuneOptions, parse_budget
from costmodel.errors import CostModelError

CLASSES = (
    TuneOptions, SchedulerOptions, MeasureOptions, SearchOptions, EvolutionOptions,
    GeneticOptions, BanditOptions, FinishOptions, LearnerOptions, SpaceOptions,
)  # fmt: skip
# None of these is a value of any field, nor is a set of options where a number is asked for.
NEVER = (math.nan, -math.inf, -1, "x", "3", b"", {}, object(), 1j, CLASSES)
FIELDS = [(kind, item) for kind in CLASSES for item in fields(kind)]


@pytest.mark.parametrize(("kind", "item"), FIELDS, ids=lambda value: getattr(value, "name", None))
def test_values_of_other_types_are_refused_in_words(kind: type, item: Any) -> None:
    others = [math.inf, 1.5, True] if item.type.startswith("int") else []
    for value in (*NEVER, *others):
        if item.name in ("rules", "extra_features") and isinstance(value, tuple):
            continue  # what is in it is asked for when sketches are made
        with pytest.raises((OptionError, CostModelError)):
            replace(kind(), **{item.name: value})


@pytest.mark.parametrize("kind", CLASSES)
def test_numbers_of_numpy_and_whole_numbers_as_floats_are_taken(kind: type) -> None:
    options = kind()
    for item in fields(options):
        value = getattr(options, item.name)
        if isinstance(value, float):
            replace(options, **{item.name: np.float64(value)})
        elif isinstance(value, int) and not isinstance(value, bool):
            replace(options, **{item.name: np.int64(value)})
        elif is_dataclass(value):
            with pytest.raises(OptionError, match=type(value).__name__):
                replace(options, **{item.name: SchedulerOptions})
    assert EvolutionOptions(quota=2).quota == 2


@pytest.mark.parametrize("budget", [[], {}, b"1s", None, True, 1j, math.nan, -1, "", "1x"])
def test_budgets_that_are_no_times(budget: Any) -> None:
    with pytest.raises(OptionError, match="is not a positive time"):
        parse_budget(budget)


@pytest.mark.parametrize(
    "make",
    [
        lambda: EvolutionOptions(spare=math.inf),
        lambda: GeneticOptions(spare=10**30),
        lambda: BanditOptions(sharpness=math.inf),
        lambda: BanditOptions(optimism=1e300),
        lambda: BanditOptions(draft_trust=1e300),
        lambda: TuneOptions().overridden(extra_features=5),  # type: ignore[arg-type]
    ],
)
def test_numbers_that_overflow_are_refused(make: Any) -> None:
    with pytest.raises(OptionError, match="is "):
        make()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: TuneOptions(seed=2**31), "seed is 2147483648 .*between 0 and 2147483647"),
        (lambda: MeasureOptions(builders=2**13), "builders is 8192 .*between 1 and 4096"),
    ],
)
def test_what_no_library_and_no_machine_takes_is_refused(
    make: Callable[[], object], text: str
) -> None:
    with pytest.raises(OptionError, match=text):
        make()

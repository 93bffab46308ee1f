"""The warning of tasks without a record: short, however many there are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import autosched as asd
from autosched.compilation.network import contents_from_log
from autosched.runtime.program import ExecutionPlan
from autosched.runtime.table import size_text
from autosched.runtime.untuned import untuned_tasks, untuned_warning
from codegen.host import host_target


def repeated(program: ExecutionPlan, tuned: int, untuned: int) -> ExecutionPlan:
    """The first kernel again and again, each time as another task."""
    step: Any = program.kernel_steps[0]
    labels = ["record"] * tuned + ["model"] * untuned
    infos = [
        replace(step.info, task=f"{n}" * 16, schedule=label, layers=(f"layer {n}",))
        for n, label in enumerate(labels)
    ]
    return replace(program, steps=tuple(replace(step, info=info) for info in infos))


def test_few_tasks_are_named() -> None:
    program = contents_from_log(
        asd.zoo.build("mlp", image=4), host_target(1), None, quick=True, check=False
    )[0]
    text = untuned_warning(repeated(program, 1, 8))
    assert text.startswith("8 of 9 tasks have no record") and text.endswith("(layer 3) and 5 more")
    one = untuned_warning(repeated(program, 0, 1))
    assert one.startswith("1 of 1 task has no record and uses the schedule")
    assert "layer 4" not in text and len(text) < 250
    assert len(untuned_tasks(repeated(program, 1, 8))) == 8
    assert untuned_warning(repeated(program, 1, 3)).endswith("(layer 3)")
    assert untuned_warning(repeated(program, 2, 0)) == ""


def test_sizes_are_told_in_a_fitting_unit() -> None:
    assert [size_text(size) for size in (0, 999, 3200, 99_999, 5_300_000)] == [
        "0 B",
        "999 B",
        "3.2 kB",
        "100.0 kB",
        "5.3 MB",
    ]

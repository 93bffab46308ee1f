"""Few trials next to many: which tasks, and what a row says of one."""

from __future__ import annotations

import argparse

import pytest

from autosched.measure.options import MeasureOptions
from autosched.workloads.builtin import get
from benchmarks.few_trials import RANKS, row, tasks_of
from codegen.host import host_target


def test_tasks_of_different_weight_are_chosen() -> None:
    tasks, measure = tasks_of("resnet-50", host_target(1))
    assert len({task.key for task in tasks}) == len(RANKS)
    assert measure.cache_state is not None
    fewer, _ = tasks_of("dcgan", host_target(1))
    assert len(fewer) == len(RANKS), "it has no tenth task"


def test_many_and_few_of_each_seed_are_timed_in_turns() -> None:
    task = get("GMM").task(1, 16, 16, 16, target=host_target(1))
    arguments = argparse.Namespace(few=2, many=4, seeds=2)
    found = row("one", task, arguments, MeasureOptions())
    assert found["name"] == f"one {task.name}"
    assert found["ratios"] == pytest.approx([few / found["many_ms"] for few in found["few_ms"]])
    assert found["ratio"] == pytest.approx((found["ratios"][0] * found["ratios"][1]) ** 0.5)
    assert found["variants"] == ["direct"] * 3
    assert min(*found["few_s"], found["many_s"]) > 0

"""Variants leave a network's outputs accurate: how errors grow on their way, and what is chosen."""

from __future__ import annotations

import numpy as np
import pytest

import autosched as asd
from autosched.compilation import unmeasured
from autosched.compilation.network import network_contents
from autosched.compilation.whole_error import Choice, within
from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Array, Network, Value
from autosched.graph.ops.conv import Conv
from autosched.records.accuracy import Accuracy
from autosched.runtime.amplification import amplifications
from autosched.runtime.backend import runtime_of
from autosched.runtime.cpu_program import CpuProgram
from autosched.runtime.random_arrays import random_arrays
from codegen.host import host_target

TARGET = host_target(1)
CHANNELS = 16


def choices(*pairs: tuple[float, float]) -> list[Choice]:
    """(seconds, error) of each."""
    return [Choice(None, seconds, error) for seconds, error in pairs]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(5.0, [0, 0]), (4.5, [0, 1]), (3.5, [1, 0]), (1.0, [1, 1]), (0.0, [1, 1])],
)
def test_the_cheapest_choices_within_the_limit(limit: float, expected: list[int]) -> None:
    tasks = [choices((1.0, 4.0), (2.0, 0.5)), choices((1.0, 3.0), (1.2, 0.5))]
    found = within(tasks, limit)
    assert [task.index(choice) for task, choice in zip(tasks, found, strict=True)] == expected


def test_of_several_choices_the_one_that_is_enough_for_its_time() -> None:
    tasks = [choices((1.0, 4.0), (1.1, 1.0), (3.0, 0.0))]
    assert within(tasks, 2.0) == [tasks[0][1]]
    assert within(tasks, 0.5) == [tasks[0][2]]


def network(*weights: Array) -> Network:
    """Convolutions of 3x3."""
    builder = GraphBuilder("convolutions")
    value = builder.input(Value("image", (1, CHANNELS, 12, 12)))
    for n, weight in enumerate(weights):
        value = builder.add(Conv((1, 1), (1, 1, 1, 1)), [value, builder.constant(f"w{n}", weight)])
    return Network("convolutions", builder.finish({"result": value}))


def weights() -> Array:
    rng = np.random.default_rng(0)
    return rng.standard_normal((CHANNELS, CHANNELS, 3, 3), np.float32) / 12


def test_differences_of_like_values_amplify_errors() -> None:
    """The first gives pairs that differ by a hundredth, the second takes their differences."""
    first, second = weights(), np.zeros((CHANNELS, CHANNELS, 3, 3), np.float32)
    first[1::2] = first[::2] + first[1::2] / 100
    for pair in range(0, CHANNELS, 2):
        second[pair : pair + 2, pair, 1, 1] = 1
        second[pair : pair + 2, pair + 1, 1, 1] = -1
    program, *rest = network_contents(network(first, second), TARGET, quick=True)
    loaded = runtime_of(TARGET).load(program, *rest)
    assert isinstance(loaded, CpuProgram)
    steps = [n for n, step in enumerate(program.steps) if step.info.flops > 0]
    inputs = random_arrays(program.inputs)
    found = amplifications(program, loaded.take(), inputs, steps)
    assert 70 < found[steps[0]] < 300
    assert 0.5 < found[steps[1]] < 2


@pytest.mark.parametrize(
    ("error", "accuracy", "stays"),
    [(2e-6, "close", True), (9e-6, "close", False), (9e-6, "default", True)],
)
def test_errors_that_are_small_in_a_task_may_be_too_large_in_a_network(
    monkeypatch: pytest.MonkeyPatch, error: float, accuracy: Accuracy, stays: bool
) -> None:
    monkeypatch.setattr("autosched.search.unmeasured.SURE_BELOW", 1e9)
    monkeypatch.setattr(unmeasured, "kernel_errors", lambda *_: (error, error))
    same = weights()
    module = asd.compile(network(same, same, same), target=TARGET, accuracy=accuracy)
    found = [step.info.algorithm for step in module.program.kernel_steps if step.info.flops > 0]
    assert all(name.startswith("winograd") == stays for name in found)
    assert all(("network" in name) != stays for name in found)

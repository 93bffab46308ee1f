"""What records say of the errors and times of a task's variants, and which of them compile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autosched.compilation import kernels
from autosched.compilation.network import extract_checked, network_contents, network_tasks
from autosched.compilation.recorded import other_variants, recorded
from autosched.compilation.scheduled import Scheduled
from autosched.compilation.whole_error import error_of
from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Network, Value
from autosched.graph.ops.base import Op
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import BinaryOp, CastOp, UnaryOp
from autosched.measure.result import Failure, Timing
from autosched.records.error_budget import errors_of
from autosched.records.record import Phase, Record, record_of
from autosched.system.user_warnings import AutoschedWarning
from autosched.tasks.candidate import Candidate
from autosched.tasks.kernel import kernel_of
from autosched.tasks.spec import TaskSpec
from codegen.host import host_target
from codegen.kernel import CompiledKernel
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.target.target import Target

TARGET = host_target(1)
CHANNELS = 16


def tail(*steps: Op) -> Network:
    """A convolution, and what follows it element by element."""
    builder = GraphBuilder("convolution")
    value = builder.input(Value("image", (1, CHANNELS, 12, 12)))
    weight = np.random.default_rng(0).standard_normal((CHANNELS, CHANNELS, 3, 3), np.float32) / 12
    value = builder.add(Conv((1, 1), (1, 1, 1, 1)), [value, builder.constant("w", weight)])
    level = builder.constant("level", np.full((1, 1, 1, 1), 0.5, np.float32))
    for step in steps:
        value = builder.add(step, [value, level] if isinstance(step, BinaryOp) else [value])
    return Network("convolution", builder.finish({"y": value}))


def with_variants(net: Network) -> TaskSpec:
    tasks = network_tasks(extract_checked(net, TARGET), TARGET)
    (task,) = [task for task in tasks if len(task.variants) > 1]
    return task


def candidate_of(task: TaskSpec, variant: str, row: int = 0) -> Candidate:
    sketch = generate(task.variant(variant).dag, TARGET, variant=variant)[0]
    return Candidate(sketch, sample(sketch, row + 1, np.random.default_rng(0)).row(row))


TAILS: dict[str, tuple[Op, ...]] = {
    "relu": (UnaryOp("relu"),),
    "floor": (UnaryOp("floor"),),
    "whether it is large, as a number": (BinaryOp("gt"), CastOp("float32")),
    "whether it is positive, as a number": (
        UnaryOp("relu"),
        CastOp("bool"),
        CastOp("float32"),
    ),
}


@pytest.mark.parametrize("case", TAILS)
def test_errors_before_a_jump_are_estimated(case: str) -> None:
    """A check allows what rounding does at a jump, so what it finds is too little."""
    task = with_variants(tail(*TAILS[case]))
    item = Scheduled(task, candidate_of(task, "winograd-6"), "model", errors=(4e-8, 4e-8))
    assert (error_of(item) == 4e-8) == (case == "relu")
    assert error_of(item) < 1e-5
    errors = errors_of(task, (), "default")
    errors.in_network = 1e-7
    timing = Timing((1.0,), error=0.0, variant_errors=(4e-8, 4e-8))
    errors.note(["winograd-6"], [timing])
    assert isinstance(errors.hold("winograd-6", timing), Failure) == (case != "relu")


def test_the_largest_error_of_all_records_of_a_variant_counts() -> None:
    """The fastest may have been checked on other data than those that errors are measured on."""
    task = with_variants(tail(UnaryOp("relu")))
    fast, slow = (candidate_of(task, "winograd-6", row) for row in (0, 1))
    timings = {
        1.0: Timing((1.0,), error=1e-7),
        2.0: Timing((2.0,), error=1e-7, variant_errors=(9e-6, 8e-6)),
    }
    records = [
        record_of(task.key, candidate, TARGET, timing)
        for candidate, timing in zip((fast, slow), timings.values(), strict=True)
    ]
    item = recorded(task, records, "warm")
    assert item is not None and item.candidate.key == fast.key
    assert error_of(item) == 9e-6


def records_of(task: TaskSpec, *rows: tuple[str, Phase, float, Target]) -> list[Record]:
    """(variant, phase, seconds, machine) of each."""
    return [
        record_of(
            task.key, candidate_of(task, variant), target, Timing((s,), error=1e-7), phase=phase
        )
        for variant, phase, s, target in rows
    ]


def test_other_variants_are_compared_as_all_candidates_are() -> None:
    """A burst that nobody timed again is not faster for that."""
    task = with_variants(tail(UnaryOp("relu")))
    records = records_of(
        task,
        ("winograd-6", "trial", 1.0, TARGET),
        ("winograd-6", "final", 1.3, TARGET),
        ("winograd-4", "trial", 1.2, TARGET),
        ("direct", "trial", 3.0, TARGET),
    )
    item = recorded(task, records, "warm")
    assert item is not None and item.recalled is not None and item.recalled.seconds == 1.3
    others = {o.candidate.sketch.variant: o for o in other_variants(item, records, "warm")}
    seconds = {name: o.recalled.seconds for name, o in others.items() if o.recalled is not None}
    assert seconds == pytest.approx({"winograd-4": 1.56, "direct": 3.9})


def test_times_of_other_machines_do_not_count_beside_those_of_this_one() -> None:
    task = with_variants(tail(UnaryOp("relu")))
    elsewhere = replace(TARGET, threads=TARGET.threads + 15)
    records = records_of(
        task,
        ("winograd-6", "trial", 1.0, TARGET),
        ("winograd-4", "trial", 0.1, elsewhere),
        ("direct", "trial", 3.0, TARGET),
    )
    item = recorded(task, records, "warm")
    assert item is not None
    others = [o.candidate.sketch.variant for o in other_variants(item, records, "warm")]
    assert others == ["direct"]


@pytest.mark.parametrize("variant", ["direct", "winograd-6"])
def test_a_step_knows_the_operations_of_its_variant(variant: str) -> None:
    net = tail()
    tasks = network_tasks(extract_checked(net, TARGET), TARGET)
    (task,) = [task for task in tasks if len(task.variants) > 1]
    timing = Timing((1.0,), error=0.0)
    record = record_of(task.key, candidate_of(task, variant), TARGET, timing)
    steps = network_contents(net, TARGET, [record])[0].kernel_steps
    (info,) = [step.info for step in steps if step.info.task == task.key]
    assert info.flops == task.dag.flops
    assert info.operations == task.variant(variant).dag.flops
    assert info.computed == (0.0 if variant == "direct" else info.operations)


def test_kernels_are_kept_where_a_record_has_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what has no code is left out, with a warning for each."""
    net = tail()
    tasks = network_tasks(extract_checked(net, TARGET), TARGET)
    (task,) = [task for task in tasks if len(task.variants) > 1]
    rows = [("direct", row) for row in range(1)] + [("winograd-6", row) for row in range(4)]
    records = [
        record_of(
            each.key, candidate_of(each, variant, row), TARGET, Timing((1.0 - row / 9,), error=0.0)
        )
        for each in tasks
        for variant, row in (rows if each is task else rows[:1])
    ]
    built: list[str] = []

    def failing(candidate: Candidate, *rest: Any) -> CompiledKernel:
        built.append(candidate.sketch.dag.key)
        if candidate.sketch.variant == "winograd-6":
            raise ValueError("no code")
        return kernel_of(candidate, *rest)

    monkeypatch.setattr(kernels, "kernel_of", failing)
    with pytest.warns(AutoschedWarning, match="no code"):
        contents = network_contents(net, TARGET, records)
    assert all(step.info.algorithm == "" for step in contents[0].kernel_steps)
    others = [key for key in built if built.count(key) == 1]
    assert len(others) == len(tasks), built

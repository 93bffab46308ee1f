"""Without a record a task may be computed by a variant, if that is right and accurate enough."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.compilation import unmeasured
from autosched.compilation.check import WrongResultError
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Network, Value
from autosched.graph.ops.conv import Conv
from autosched.records.accuracy import Accuracy
from autosched.report.explain import explain
from autosched.search.unmeasured import SURE_BELOW, SURE_BELOW_ON_GPUS, predicted
from autosched.system.user_warnings import AutoschedWarning
from autosched.task import Task
from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.lower.packing import Preparation
from sketch.operators.conv import conv2d
from sketch.oracle.interpret import interpret
from sketch.target.gpu_targets import cuda_target
from tests.support.workloads import conv2d_relu

TARGET = host_target(1)
DATA = np.random.default_rng(0).standard_normal((1, 16, 16, 16), np.float32)
WEIGHT = np.random.default_rng(1).standard_normal((3, 3, 16, 16), np.float32)


@cache
def task() -> Task:
    weight = placeholder(WEIGHT.shape, name="w", constant=True)
    data = placeholder(DATA.shape, name="x")
    return Task(ComputeDAG([conv2d(data, weight, 1, 1, name="y")]), TARGET)


def network() -> Network:
    """Two convolutions of one task and one weight."""
    builder = GraphBuilder("two")
    value = builder.input(Value("image", (1, 16, 16, 16)))
    weight = builder.constant("weight", np.ascontiguousarray(WEIGHT.transpose(3, 2, 0, 1) / 12))
    for _ in range(2):
        value = builder.add(Conv((1, 1), (1, 1, 1, 1)), [value, weight])
    return Network("two", builder.finish({"result": value}))


@pytest.fixture
def sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The draft model is sure of everything."""
    monkeypatch.setattr("autosched.search.unmeasured.SURE_BELOW", 1e9)


def algorithms(module: asd.Module) -> list[str]:
    """Of the convolutions; other kernels of a network change the layout."""
    steps = module.program.kernel_steps
    return [step.info.algorithm for step in steps if step.info.flops > 0]


def tried(monkeypatch: pytest.MonkeyPatch, errors: float = 1e-7) -> list[str]:
    """The variants whose errors are asked for, in turn; they are those given."""
    found: list[str] = []

    def given(_: Task, candidate: Any, *others: Any) -> tuple[float, ...]:
        found.append(candidate.sketch.variant)
        return (1e-7, errors)

    monkeypatch.setattr(unmeasured, "kernel_errors", given)
    return found


def test_variants_that_the_draft_is_sure_of_come_before_the_task_as_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conv = task()
    assert all(item.share < SURE_BELOW for item in predicted(conv)[:-1])
    monkeypatch.setattr("autosched.search.unmeasured.SURE_BELOW", 1e9)
    found = predicted(conv)
    assert {item.candidate.sketch.variant for item in found} == {v.name for v in conv.variants}
    assert found[-1].candidate == conv.draft_candidate() and found[-1].share == 1.0
    shares = [item.share for item in found[:-1]]
    assert shares == sorted(shares)
    written = [item.candidate.sketch.variant for item in predicted(conv, variants=())]
    monkeypatch.setattr("autosched.search.unmeasured.SURE_BELOW", 0.0)
    assert written == [i.candidate.sketch.variant for i in predicted(conv)] == ["direct"]


def test_a_module_of_a_variant_is_right_and_says_why(sure: None) -> None:
    conv = task()
    module = conv.module({"w": WEIGHT})
    expected = interpret(conv.dag, {"x": DATA, "w": WEIGHT})["y"]
    found = module.run({"x": DATA})["y"]
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
    (said,) = algorithms(module)
    assert said.startswith("winograd") and "% of the time as written" in said and ", error " in said
    assert said in module.summary()
    assert "chosen by the draft model, which predicts" in explain(conv, None, 1e9)
    assert "chosen by the draft" not in explain(conv, None, 1e9, "as written")


@pytest.mark.parametrize(
    "options", [{"check": False}, {"accuracy": "as written"}, {"effort": "none"}]
)
def test_what_is_not_checked_or_not_allowed_is_computed_as_written(
    sure: None, options: dict[str, Any]
) -> None:
    assert algorithms(asd.compile(network(), TARGET, **options)) == ["", ""]
    if "effort" not in options:
        assert algorithms(task().module({"w": WEIGHT}, **options)) == [""]


@pytest.mark.parametrize("accuracy", ["default", "fast"])
def test_beyond_the_budget_the_next_is_compiled(
    sure: None, monkeypatch: pytest.MonkeyPatch, accuracy: Accuracy
) -> None:
    seen = tried(monkeypatch, 5e-5)
    (said,) = algorithms(task().module({"w": WEIGHT}, accuracy=accuracy))
    if accuracy == "fast":
        assert len(seen) == 1 and said.startswith(f"{seen[0]}, error 5.0e-05")
    else:
        assert sorted(seen) == sorted(variant.name for variant in task().variants[1:])
        assert said == f"as written; {seen[-1]} has an error of 5.0e-05"


def test_a_wrong_variant_is_told_and_not_used(sure: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def checking(_: Task, candidate: Any, *others: Any) -> None:
        assert candidate.sketch.variant != "direct"
        raise WrongResultError("wrong")

    monkeypatch.setattr(unmeasured, "kernel_errors", checking)
    with pytest.warns(AutoschedWarning, match="variant winograd.* is not used: wrong"):
        module = asd.compile(network(), TARGET)
    assert all(said.startswith("as written; winograd") for said in algorithms(module))


def test_a_network_packs_the_constants_of_what_it_uses_once(
    sure: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed: list[np.ndarray[Any, Any]] = []
    apply = Preparation.apply

    def noted(self: Preparation, array: Any) -> Any:
        packed.append(array)
        return apply(self, array)

    monkeypatch.setattr(Preparation, "apply", noted)
    seen, net = tried(monkeypatch), network()
    module = asd.compile(net, TARGET)
    assert len(seen) == 1 and all(said.startswith(seen[0]) for said in algorithms(module))
    weights = [array for array in packed if np.array_equal(array, WEIGHT / 12)]
    assert len(weights) == 1
    inputs = {"image": DATA}
    expected = evaluate(net.graph, inputs)["result"]
    found = module.run(inputs)["result"]
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("of_network", [False, True])
@pytest.mark.usefixtures("sure")
def test_with_an_infinite_weight_a_convolution_is_computed_as_it_is_written(
    of_network: bool,
) -> None:
    """Transformed, it would make NaN of all results of its channel."""
    weight = WEIGHT.copy()
    weight[1, 1, 2, 3] = np.inf
    if of_network:
        builder = GraphBuilder("one")
        image = builder.input(Value("image", (1, 16, 16, 16)))
        given = builder.constant("weight", np.ascontiguousarray(weight.transpose(3, 2, 0, 1)))
        result = builder.add(Conv((1, 1), (1, 1, 1, 1)), [image, given])
        module = asd.compile(Network("one", builder.finish({"result": result})), TARGET)
    else:
        module = task().module({"w": weight})
    assert algorithms(module) == [""]
    (found,) = module.run({module.inputs[0].name: DATA}).values()
    assert not np.isnan(found).any() and np.isinf(found).sum() == 16 * 16


@pytest.mark.usefixtures("sure")
@pytest.mark.filterwarnings("error::autosched.system.user_warnings.AutoschedWarning")
def test_windows_that_hold_padding_alone_may_have_roundings() -> None:
    """They are exactly zero as written; a variant sums up elements of the tile beside them."""
    weight, data = (
        placeholder(WEIGHT.shape, name="w", constant=True),
        placeholder(DATA.shape, name="x"),
    )
    wide = Task(ComputeDAG([conv2d(data, weight, 1, 4, name="y")]), TARGET)
    module = wide.module({"w": WEIGHT})
    assert algorithms(module)[0].startswith("winograd")
    found = module.run({"x": DATA})["y"]
    assert abs(found[0, 0]).max() <= 1e-6 * abs(found).max()


@cache
def task_of_gpu() -> Task:
    return Task(conv2d_relu(7, 512, 512), cuda_target("h200"))


@pytest.mark.parametrize(
    ("accuracy", "check", "quick"),
    [("default", True, True), *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        ("default", True, False), ("as written", True, False), ("default", False, False)))],
)  # fmt: skip
def test_on_a_gpu_those_that_round_no_more_come_first(
    accuracy: Accuracy, check: bool, quick: bool
) -> None:
    """As it is written, each product of a padded convolution is tested; nobody measures errors."""
    gpu = task_of_gpu()
    item = unmeasured.unmeasured(gpu, quick, check, accuracy)
    found = [(each.candidate.sketch.variant, each.share) for each in item.predicted]
    assert found[-1] == ("direct", 1.0) and not item.judged_by_errors
    others = dict(found[:-1])
    assert bool(others) == (accuracy == "default" and check and not quick)
    assert set(others) <= {"zero-padded", "implicit-gemm"}
    assert all(share < SURE_BELOW_ON_GPUS for share in others.values())
    if others:
        assert "of the time as written" in item.algorithm
        text = explain(gpu, None, 1e12)
        assert "chosen by the draft model" in text and "error budget" not in text

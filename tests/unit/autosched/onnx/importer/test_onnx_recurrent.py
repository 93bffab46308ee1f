"""RNN, GRU and LSTM become kernels in a loop, with every attribute of the standard."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.loop_call import LoopCall
from autosched.onnx.importer import from_onnx
from autosched.runtime.module import Module
from autosched.runtime.program import ExecutionPlan
from tests.support.examples import examples
from tests.support.recurrent_reference import (
    DEFAULTS,
    FUNCTIONS,
    INPUTS,
    Case,
    make_case,
    make_model,
    reference,
)

SEQUENCES = ("B", "sequence_lens", "initial_h", "initial_c")
RNG = np.random.default_rng(5)
COMPILED = [
    make_case("LSTM", RNG, (5, 3, 4, 7), ("B", "initial_h", "initial_c", "P")),
    make_case("LSTM", RNG, (1, 1, 3, 17), (), direction="reverse"),
    make_case("LSTM", RNG, (6, 2, 3, 5), SEQUENCES, direction="bidirectional", layout=1),
    make_case("LSTM", RNG, (2, 1, 3, 5), ("B", "P"), input_forget=1, clip=0.3),
    make_case("GRU", RNG, (4, 1, 3, 33), ("B",), linear_before_reset=1),
    make_case("GRU", RNG, (4, 3, 3, 5), ("B", "initial_h"), direction="bidirectional"),
    make_case("RNN", RNG, (3, 2, 4, 6), ("B", "sequence_lens"), direction="reverse", layout=1),
    make_case("RNN", RNG, (2, 3, 1, 1)),
]
EVERY_RUN = (0, 2, 4, 6)
LONG_RUN = [pytest.param(number, marks=pytest.mark.slow) for number in (1, 3, 5, 7)]


def host_free(network: Any) -> Any:
    extraction = extract(network)
    assert not extraction.host_calls
    return extraction


def feeds(case: Case, names: tuple[str, ...] = ("X",)) -> dict[str, Any]:
    return {name: case.inputs[name] for name in names}


def check(case: Case, found: Any, tolerance: float = 1e-5) -> None:
    expected = reference(case)
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert found[name].shape == values.shape
        np.testing.assert_allclose(found[name], values, rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="module")
def modules() -> Callable[[int], Module]:
    return cache(lambda number: asd.compile(from_onnx(make_model(COMPILED[number]))))


@pytest.mark.parametrize("number", [*EVERY_RUN, *LONG_RUN])
def test_compiled(modules: Callable[[int], Module], number: int) -> None:
    case, module = COMPILED[number], modules(number)
    assert not module.program.host_steps
    for _ in range(2):  # the arena holds what the run before has left
        check(case, module.run(feeds(case)))


@st.composite
def cases(draw: Any) -> Case:
    operator = draw(st.sampled_from(sorted(DEFAULTS)))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    sizes = tuple(draw(st.integers(1, 4)) for _ in range(4))
    allowed = [name for name in INPUTS[3:] if operator == "LSTM" or name not in ("initial_c", "P")]
    attributes: dict[str, Any] = {
        "direction": draw(st.sampled_from(["forward", "reverse", "bidirectional"])),
        "layout": draw(st.integers(0, 1)),
    }
    if draw(st.booleans()):
        attributes["clip"] = draw(st.sampled_from([0.25, 1.0]))
    if operator == "GRU":
        attributes["linear_before_reset"] = draw(st.integers(0, 1))
    if operator == "LSTM":
        attributes["input_forget"] = draw(st.integers(0, 1))
    if draw(st.booleans()):
        count = len(DEFAULTS[operator]) * (1 + (attributes["direction"] == "bidirectional"))
        attributes["activations"] = [draw(st.sampled_from(sorted(FUNCTIONS))) for _ in range(count)]
        for name, values in (("alpha", (0.25, 0.375, 0.5)), ("beta", (0.5, 0.25, -0.5))):
            if given_values := draw(st.integers(0, 3)):
                attributes[f"activation_{name}"] = values[:given_values]
    optional = draw(st.lists(st.sampled_from(allowed), unique=True))
    return make_case(operator, rng, sizes, optional, **attributes)  # type: ignore[arg-type]


@examples(25)
@given(case=cases(), variable=st.booleans())
def test_attributes(case: Case, variable: bool) -> None:
    """Constant weights or not: no host operator, and the standard's values."""
    names = tuple(case.inputs) if variable else ("X",)
    network = from_onnx(make_model(case, names))
    assert not any(node.op.on_host for node in network.graph.nodes)
    check(case, evaluate(network.graph, feeds(case, names)))


def test_variable_weights_and_lengths() -> None:
    case = make_case("GRU", RNG, (4, 3, 2, 5), ("B", "sequence_lens", "initial_h"))
    names = tuple(case.inputs)
    module = asd.compile(from_onnx(make_model(case, names)))
    assert not module.program.host_steps
    check(case, module.run(feeds(case, names)))
    shorter = dict(case.inputs) | {"sequence_lens": np.array([0, 1, 4], np.int32)}
    changed = Case("GRU", shorter, case.attributes)
    found = module.run(feeds(changed, names))
    np.testing.assert_array_equal(found["Y_h"][0, 0], case.inputs["initial_h"][0, 0])
    assert not found["Y"][:, :, 0].any()


def test_few_kernels_in_each_step() -> None:
    counts = {}
    for operator in DEFAULTS:
        attributes = {"linear_before_reset": 1} if operator == "GRU" else {}
        model = make_model(make_case(operator, RNG, optional=("B",), **attributes))
        extraction = host_free(from_onnx(model))
        (loop,) = (call for call in extraction.calls if isinstance(call, LoopCall))
        counts[operator] = len(loop.body.calls)
        assert len(extraction.calls) == 2  # the product of all time steps, the loop
    assert counts == {"RNN": 1, "GRU": 2, "LSTM": 3}


def written(program: ExecutionPlan) -> int:
    """Bytes of all memory that the steps write."""
    return program.arena_bytes + sum(spec.size_bytes for spec, _ in program.outputs)


def test_outputs_that_nobody_wants_cost_nothing() -> None:
    case = make_case("LSTM", RNG, (100, 1, 2, 8))
    small, large = (
        asd.compile(from_onnx(make_model(case, outputs=count))).program for count in (1, 3)
    )
    assert written(small) <= written(large)
    model = make_model(case)
    model.graph.node[0].output[0] = ""  # only the last states
    del model.graph.output[0]
    program = asd.compile(from_onnx(model)).program
    assert written(program) < written(small)
    found = asd.compile(from_onnx(model)).run(feeds(case))
    np.testing.assert_allclose(found["Y_h"], reference(case)["Y_h"], rtol=1e-5, atol=1e-5)


def test_long_sequences_have_the_tasks_of_short_ones() -> None:
    """What is compiled and tuned does not grow with the length; weights of tasks do."""
    tasks = {}
    for length in (2, 500):
        case = make_case("LSTM", RNG, (length, 1, 3, 5), ("B",))
        extraction = host_free(from_onnx(make_model(case)))
        tasks[length] = extraction.tasks
        assert len(extraction.subgraphs) == 4
    assert sorted(task.weight for task in tasks[500]) == [1, 500, 500, 500]
    steps = [{dag.key for dag, weight in tasks[length] if weight > 1} for length in tasks]
    assert steps[0] == steps[1]
    module = asd.compile(from_onnx(make_model(case)))
    check(case, module.run(feeds(case)), 1e-4)
    profile = module.profile(feeds(case), repeats=2)
    assert len(profile.rows) == 4
    assert profile.total.microseconds >= sum(row.microseconds for row in profile.rows)
    assert "500 x 1x5, 5x20" in module.summary()
    assert module.program.steps[1].info.flops == 500 * tasks[500][1].dag.flops


@pytest.mark.parametrize("number", [*EVERY_RUN, *LONG_RUN])
def test_saved_and_exported(modules: Callable[[int], Module], number: int, tmp_path: Path) -> None:
    case, module = COMPILED[number], modules(number)
    module.save(tmp_path / "layer.asd")
    check(case, asd.load(tmp_path / "layer.asd").run(feeds(case)))
    exported = module.export_library(tmp_path / "layer")
    if exported.shared_library is None:
        pytest.skip(exported.note)
    check(case, call_library(exported.shared_library, exported.name, module, case))


def call_library(path: Path, name: str, module: Module, case: Case) -> dict[str, Any]:
    library = ctypes.CDLL(str(path))
    assert library[f"{name}_init"]() == 0
    given = [np.ascontiguousarray(case.inputs[spec.name]) for spec in module.inputs]
    found = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in module.outputs}
    tables = [
        (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        for arrays in (given, list(found.values()))
    ]
    for _ in range(2):
        assert library[f"{name}_run"](*tables) == 0
    library[f"{name}_free"]()
    return found


def test_several_threads(modules: Callable[[int], Module]) -> None:
    case, module = COMPILED[0], modules(0)
    inputs = [RNG.standard_normal(case.inputs["X"].shape).astype(np.float32) for _ in range(4)]
    alone = [module.run({"X": x}) for x in inputs]
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        for _ in range(20):
            found[number] = module.run({"X": inputs[number]})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, expected in enumerate(alone):
        for name, values in expected.items():
            np.testing.assert_array_equal(found[number][name], values)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"activations": ["Sin"]}, "no activation 'Sin'"),
        ({"activations": ["Tanh"], "direction": "bidirectional"}, "1 activations, 2 of them"),
    ],
)
def test_what_no_kernel_computes(attributes: dict[str, Any], reason: str) -> None:
    with pytest.raises(asd.AutoschedError, match=reason):
        from_onnx(make_model(make_case("RNN", RNG, **attributes)))

"""Loops of a program, with kernels written in Python: where each iteration finds its values."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from autosched.runtime.assemble import assemble
from autosched.runtime.cpu_program import CpuProgram
from autosched.runtime.errors import AssemblyError, ModuleFileError
from autosched.runtime.module import Module
from autosched.runtime.program import Moving, Place, RepeatedSteps, StepInfo, TensorSpec
from autosched.runtime.program_json import program_json, program_of
from autosched.runtime.wiring import Call, Inside, Wiring
from tests.support.fake_kernels import COUNT, TARGET, FakeArgument, FakeKernel, FakeLibrary, floats

SIZE = 4 * COUNT
CASES = list(product((1, 2, 5), (False, True), (False, True)))


def kernel(library: FakeLibrary, symbol: str, operator: Any) -> Any:
    def run(args: Any) -> None:
        floats(args[2])[:] = operator(floats(args[0]), floats(args[1]))

    library.define(symbol, run)
    scopes = (("a", "input"), ("b", "input"), ("c", "output"))
    return FakeKernel(symbol, tuple(FakeArgument(name, scope) for name, scope in scopes))


def make_wiring(trips: int, backwards: bool, stacked: bool) -> tuple[Wiring, FakeLibrary]:
    """``s = s * w + x[t]`` in a loop over all t; then ``y = s + w``."""
    library = FakeLibrary()
    scale = kernel(library, "scale", np.multiply)
    add = kernel(library, "add", np.add)
    begin, stride = ((trips - 1) * SIZE, -SIZE) if backwards else (0, SIZE)
    end = begin + stride * (trips - 1)
    state = Inside("all", begin, stride) if stacked else Inside("ring", 0, SIZE, 2)
    sequence = TensorSpec("x", (trips, COUNT), "float32")
    outputs = [(TensorSpec("y", (COUNT,), "float32"), "y")]
    if stacked:
        outputs.append((TensorSpec("all", (trips, COUNT), "float32"), "all"))
    wiring = Wiring(
        name="loop",
        target=TARGET,
        inputs=(sequence, TensorSpec("start", (COUNT,), "float32")),
        outputs=tuple(outputs),
        calls=(
            Call(scale, ("before", "w", "scaled"), StepInfo("scale")),
            Call(add, ("scaled", "x[t]", "after"), StepInfo("add")),
            Call(add, ("last", "w", "y"), StepInfo("shift")),
        ),
        constants={"w": np.arange(COUNT, dtype=np.float32) / 4},
        sizes={"x": trips * SIZE, "start": SIZE, "scaled": SIZE, "y": SIZE, "ring": 2 * SIZE}
        | {"all": trips * SIZE},
        parts={
            "x[t]": Inside("x", begin, stride),
            "before": replace(state, first="start"),
            "after": state,
            "last": Inside("all", end) if stacked else Inside("ring", (trips - 1) % 2 * SIZE),
        },
        loops=(RepeatedSteps(0, 2, trips),),
    )
    return wiring, library


def reference(x: Any, start: Any, backwards: bool) -> tuple[Any, Any]:
    w = np.arange(COUNT, dtype=np.float32) / 4
    states = np.zeros_like(x)
    state = start
    for t in range(len(x))[:: -1 if backwards else 1]:
        states[t] = state = state * w + x[t]
    return state + w, states


@pytest.mark.parametrize(("trips", "backwards", "stacked"), CASES)
def test_iterations_find_their_values(trips: int, backwards: bool, stacked: bool) -> None:
    wiring, library = make_wiring(trips, backwards, stacked)
    program, constants = assemble(wiring)
    assert program_of(program_json(program)) == program
    module = Module(program, constants, CpuProgram(program, constants, library, {}), {})
    inputs = module.random_inputs(trips)
    last, states = reference(inputs["x"], inputs["start"], backwards)
    for _ in range(2):
        found = module.run(inputs)
        np.testing.assert_allclose(found["y"], last, rtol=1e-5, atol=1e-6)
        if stacked:
            np.testing.assert_allclose(found["all"], states, rtol=1e-5, atol=1e-6)


def test_a_step_takes_the_time_of_all_its_iterations() -> None:
    wiring, library = make_wiring(3, False, True)
    program, constants = assemble(wiring)
    module = Module(program, constants, CpuProgram(program, constants, library, {}), {})
    # the fake clock gives row n of the plan n microseconds: 1 to 6 in the loop
    rows = module.profile(repeats=1).rows
    assert [round(row.microseconds, 6) for row in rows] == [1 + 3 + 5, 2 + 4 + 6, 7]


def test_a_loop_needs_memory_for_what_iterations_leave_to_each_other() -> None:
    """Not for each iteration: only stacked values grow with their number."""
    sizes = [assemble(make_wiring(trips, False, False)[0])[0].arena_bytes for trips in (2, 50)]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("change", [{"offset": SIZE}, {"stride": 2 * SIZE}, {"offset": -4}])
def test_a_part_must_lie_within_its_whole(change: dict[str, int]) -> None:
    wiring, _ = make_wiring(4, False, True)
    parts = dict(wiring.parts) | {"x[t]": replace(wiring.parts["x[t]"], **change)}
    with pytest.raises(AssemblyError, match=r"'x\[t\]' has 96 bytes, .* 24"):
        assemble(replace(wiring, parts=parts))


def test_what_enters_a_loop_must_be_as_large_as_what_its_iterations_leave() -> None:
    wiring, _ = make_wiring(4, False, True)
    small = TensorSpec("start", (COUNT - 1,), "float32")
    inputs, sizes = (wiring.inputs[0], small), {**wiring.sizes, "start": small.size_bytes}
    with pytest.raises(AssemblyError, match=r"'start' has 20 bytes, .* 24"):
        assemble(replace(wiring, inputs=inputs, sizes=sizes))


def test_offsets_of_a_moving_value() -> None:
    place = Place("arena", 64)
    assert Moving(place, 8, 4).offsets(3).tolist() == [8, 12, 16]
    assert Moving(place, 0, 4, 2).offsets(5).tolist() == [0, 4, 0, 4, 0]
    assert Moving(place, 8, -4, 0, place).offsets(3).tolist() == [8, 4]


def test_a_damaged_period_is_refused() -> None:
    data = program_json(assemble(make_wiring(3, False, False)[0])[0])
    data["steps"][0]["arguments"][0]["period"] = -1
    with pytest.raises(ModuleFileError, match="-1 is negative"):
        program_of(data)

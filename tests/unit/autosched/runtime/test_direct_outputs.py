"""Outputs that the steps write into arrays of the caller's, with kernels written in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched.runtime.assemble import assemble
from autosched.runtime.cpu_program import CpuProgram
from autosched.runtime.errors import InputError
from autosched.runtime.module import Module
from autosched.runtime.program import Moving, Place, StepInfo, TensorSpec
from autosched.runtime.program_json import program_json, program_of
from autosched.runtime.wiring import Call, Inside, Wiring
from tests.support.fake_kernels import COUNT, TARGET, FakeArgument, FakeKernel, FakeLibrary, floats

SIZE = 4 * COUNT
X = np.linspace(-1, 1, COUNT, dtype=np.float32)


def make_module(
    outputs: dict[str, str], parts: dict[str, Inside] | None = None, **sizes: int
) -> Module:
    """``a = x + 1``, ``b = a + 1``; ``outputs``: the value that each is."""
    library = FakeLibrary()

    def add(args: Any) -> None:
        floats(args[1])[:] = floats(args[0]) + 1

    library.define("add", add)
    kernel: Any = FakeKernel("add", (FakeArgument("a", "input"), FakeArgument("b", "output")))
    found = {"x": SIZE, "a": SIZE, "b": SIZE, "c": 8192} | sizes
    wiring = Wiring(
        name="tiny",
        target=TARGET,
        inputs=(TensorSpec("x", (COUNT,), "float32"),),
        outputs=tuple((TensorSpec(o, (found[v] // 4,), "float32"), v) for o, v in outputs.items()),
        calls=(Call(kernel, ("x", "a"), StepInfo("1")), Call(kernel, ("a", "b"), StepInfo("2"))),
        constants={"c": np.full(2048, 9, np.float32)},
        sizes=found,
        parts=parts or {},
    )
    program, constants = assemble(wiring)
    assert program_of(program_json(program)) == program
    return Module(program, constants, CpuProgram(program, constants, library, {}), {})


def places(module: Module) -> list[Place]:
    return [place for _, place in module.program.outputs]


def test_a_value_that_is_read_again_is_written_into_its_output() -> None:
    module = make_module({"first": "a", "last": "b", "again": "a", "same": "x", "nine": "c"})
    assert places(module)[:4] == [
        Place("output", 0), Place("output", 1), Place("output", 0), Place("input", 0),
    ]  # fmt: skip
    assert module.program.arena_bytes == 0
    for _ in range(2):
        found = module.run({"x": X})
        for name, added in {"first": 1, "last": 2, "again": 1, "same": 0}.items():
            np.testing.assert_array_equal(found[name], X + np.float32(added))
        assert not np.shares_memory(found["first"], found["again"]) and (found["nine"] == 9).all()
        assert found["nine"].ctypes.data % 64 == 0  # large enough to be worth it


def test_parts_lie_in_the_output_that_they_are_parts_of() -> None:
    both = {"a": Inside("whole", 0), "b": Inside("inner", SIZE), "inner": Inside("whole", 0)}
    module = make_module({"y": "whole"}, both, whole=2 * SIZE, inner=2 * SIZE)
    assert module.program.steps[0].arguments[1] == Moving(Place("output", 0), 0, 0)
    assert module.program.steps[1].arguments[1] == Moving(Place("output", 0), SIZE, 0)
    found = module.run({"x": X})["y"]
    np.testing.assert_array_equal(found, np.concatenate([X + 1, X + 2]))


def test_a_part_that_is_an_output_itself_keeps_its_whole_in_the_arena() -> None:
    both = {"a": Inside("whole", 0), "b": Inside("whole", SIZE)}
    module = make_module({"y": "whole", "b": "b"}, both, whole=2 * SIZE)
    assert [place.segment for place in places(module)] == ["arena", "arena"]
    found = module.run({"x": X})
    np.testing.assert_array_equal(found["y"], np.concatenate([X + 1, X + 2]))
    np.testing.assert_array_equal(found["b"], X + 2)


def test_given_arrays_take_the_outputs() -> None:
    module, y = make_module({"y": "b", "z": "a"}), np.zeros(COUNT, np.float32)
    before, found = y.ctypes.data, module.run({"x": X}, out={"y": y})
    assert found["y"] is y and y.ctypes.data == before
    np.testing.assert_array_equal(y, X + 2)
    np.testing.assert_array_equal(found["z"], X + 1)


def test_arrays_that_cannot_be_written_in_place_are_copied_into() -> None:
    module = make_module({"z": "a", "y": "b"})
    strided = np.zeros((COUNT, 2), np.float32)[:, 0]
    assert module.run({"x": X}, out={"y": strided})["y"] is strided
    np.testing.assert_array_equal(strided, X + 2)
    memory = np.concatenate([X, X])  # z would overwrite elements of x before they are read
    x, shifted = memory[:COUNT], memory[1 : COUNT + 1]
    np.testing.assert_array_equal(module.run({"x": x}, out={"z": shifted})["z"], X + 1)
    np.testing.assert_array_equal(shifted, X + 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": X}, "no output has that name"),
        (X, "out must be a dict from name to array, got ndarray"),
        ([X], "got list"),
        ({"y": [0.0] * COUNT}, "list is no NumPy array"),
        ({"y": np.zeros(COUNT)}, r"float64\[6\], expected float32\[6\]"),
        ({"y": np.zeros((COUNT, 1), np.float32)}, r"float32\[6, 1\], expected"),
        ({"y": np.broadcast_to(np.float32(0), (COUNT,))}, "cannot be written"),
    ],
)
def test_arrays_that_take_no_output(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_module({"y": "b"}).run({"x": X}, out=given)


@pytest.mark.parametrize("start", [0, 2, COUNT - 1])
@pytest.mark.parametrize("step", [1, 2])
def test_outputs_that_share_memory_are_refused(start: int, step: int) -> None:
    module, memory = make_module({"z": "a", "y": "b"}), np.zeros(4 * COUNT, np.float32)
    z = memory[: step * COUNT : step]
    y = memory[start : start + step * COUNT : step]
    if np.shares_memory(y, z):
        with pytest.raises(InputError, match=r"it shares memory with out '[yz]'"):
            module.run({"x": X}, out={"y": y, "z": z})
    else:  # between the elements of the other
        module.run({"x": X}, out={"y": y, "z": z})
        np.testing.assert_array_equal(y, X + 2)
        np.testing.assert_array_equal(z, X + 1)


HOLDERS: dict[str, Callable[[np.ndarray], Any]] = {
    "view": lambda array: array[2:5],
    "transposed view": lambda array: array.reshape(2, -1).T,
    "memoryview": memoryview,
    "DLPack": np.from_dlpack,
    "buffer": lambda array: np.frombuffer(array, np.float32),
    "iterator": iter,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_memory_is_used_again_where_nobody_holds_an_output(holder: str) -> None:
    module = make_module({"y": "b"})

    def run(number: float) -> np.ndarray:
        return module.run({"x": np.full(COUNT, number, np.float32)})["y"]

    held = HOLDERS[holder](run(1))  # the array itself is dropped
    addresses = {run(number).ctypes.data for number in range(5, 25)}
    assert len(addresses) <= 2
    values = list(held) if holder == "iterator" else np.asarray(held).ravel()
    assert len(values) and all(value == 3 for value in values)

"""The runtime with kernels written in Python: no code generator is involved."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from typing import Any

import numpy as np
import pytest

from autosched.runtime.assemble import assemble, check_no_nan
from autosched.runtime.cpu_program import CpuProgram
from autosched.runtime.errors import AssemblyError, ExportError, InputError
from autosched.runtime.inputs import check_inputs
from autosched.runtime.module import Module
from autosched.runtime.program import StepInfo, TensorSpec
from autosched.runtime.program_json import program_json, program_of
from autosched.runtime.wiring import Call, Wiring
from autosched.system.element_types import element_type
from tests.support.fake_kernels import COUNT, TARGET, FakeArgument, FakeKernel, FakeLibrary, floats


def make_wiring(**changes: Any) -> tuple[Wiring, FakeLibrary]:
    """``y = (x * w) * w + x`` through a workspace."""
    library = FakeLibrary()

    def multiply(args: Any) -> None:
        floats(args[3])[:] = floats(args[0])  # the workspace
        floats(args[2])[:] = floats(args[3]) * floats(args[1])

    def add(args: Any) -> None:
        floats(args[2])[:] = floats(args[0]) + floats(args[1])

    library.define("multiply", multiply)
    library.define("add", add)
    operands = tuple(
        FakeArgument(n, s) for n, s in (("a", "input"), ("b", "constant"), ("c", "output"))
    )
    product: Any = FakeKernel("multiply", operands, workspace_bytes=4 * COUNT)
    sums = tuple(FakeArgument(n, s) for n, s in (("a", "input"), ("b", "input"), ("c", "output")))
    total: Any = FakeKernel("add", sums)
    spec = TensorSpec("x", (2, 3), "float32")
    values: dict[str, Any] = {
        "name": "tiny",
        "target": TARGET,
        "inputs": (spec,),
        "outputs": ((TensorSpec("y", (3, 2), "float32"), "y.value"),),
        "calls": (
            Call(product, ("x", "w", "p"), StepInfo("first", ("conv1",), "mul", "6", 6.0, "aa")),
            Call(product, ("p", "w", "q"), StepInfo("second", task="aa", schedule="record")),
            Call(total, ("q", "x", "y.value"), StepInfo("third", task="bb", schedule="model")),
        ),
        "constants": {"w": np.arange(COUNT, dtype=np.float32)},
        "sizes": dict.fromkeys(("x", "p", "q", "y.value"), 4 * COUNT),
    }
    return Wiring(**(values | changes)), library


def make_module(**changes: Any) -> Module:
    wiring, library = make_wiring(**changes)
    program, constants = assemble(wiring)
    return Module(program, constants, CpuProgram(program, constants, library, {}), {})


def expected(x: Any) -> Any:
    w = np.arange(COUNT, dtype=np.float32).reshape(2, 3)
    return ((x * w) * w + x).reshape(3, 2)


X = np.linspace(-1, 1, COUNT, dtype=np.float32).reshape(2, 3)


def test_run_gives_new_arrays_in_the_models_names_and_shapes() -> None:
    module = make_module()
    first = module.run({"x": X})
    second = module.run({"x": 2 * X})
    np.testing.assert_array_equal(first["y"], expected(X))
    np.testing.assert_array_equal(second["y"], expected(2 * X))


def test_strided_inputs_dlpack_and_nan_are_legal() -> None:
    module = make_module()
    wide = np.zeros((3, 4), np.float32)
    wide[:, 1:3] = X.T
    np.testing.assert_array_equal(module.run({"x": wide[:, 1:3].T})["y"], expected(X))

    class Foreign:
        def __dlpack__(self, **kwargs: Any) -> Any:
            return X.__dlpack__(**kwargs)

        def __dlpack_device__(self) -> Any:
            return X.__dlpack_device__()

    np.testing.assert_array_equal(module.run({"x": Foreign()})["y"], expected(X))
    dirty = X.copy()
    dirty[0, 0] = np.nan
    result = module.run({"x": dirty})["y"]
    assert np.isnan(result[0, 0]) and np.isfinite(result.ravel()[1:]).all()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "no array for input 'x'"),
        ({"x": X, "z": X}, "no input is named 'z'"),
        ({"x": X[:1]}, r"shape \(1, 3\), expected \(2, 3\)"),
        ({"x": X.astype("float64")}, r"dtype float64, expected float32"),
        ({"x": [1.0]}, "list is no array"),
        (X, "must be a dict"),
    ],
)
def test_wrong_inputs_give_one_clear_error(inputs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_module().run(inputs)


def test_a_module_can_be_called() -> None:
    module = make_module()
    for found in (module(X), module({"x": X}), module(x=X)):
        np.testing.assert_array_equal(found, expected(X))
    with pytest.raises(InputError, match=r"an array without a name.*x: float32"):
        module(X, y=X)
    with pytest.raises(InputError, match="no array for input 'x'"):
        module()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float32", np.float32(2.5)),
        ("float32", 2.5),
        ("float16", 3),
        ("bfloat16", 0.5),
        ("int8", -128),
        ("int64", np.int64(7)),
        ("bool", True),
    ],
)
def test_scalars_are_arrays_without_axes(dtype: str, value: Any) -> None:
    spec = TensorSpec("s", (), dtype)
    found = check_inputs([spec], {"s": value}, lambda value, where: None)["s"]
    assert found.shape == () and found.dtype == element_type(dtype) and found == value


@pytest.mark.parametrize(
    ("spec", "value", "message"),
    [
        (TensorSpec("s", (), "float32"), np.float64(1), "dtype float64, expected float32"),
        (TensorSpec("s", (), "int8"), 128, "128 is no int8"),
        (TensorSpec("s", (), "int64"), 1.0, "1.0 is no int64"),
        (TensorSpec("s", (), "float32"), 1e300, "1e[+]300 is no float32"),
        (TensorSpec("s", (), "float16"), 70000.0, "70000.0 is no float16"),
        (TensorSpec("s", (), "float64"), 10**400, "is no float64"),
        (TensorSpec("s", (), "float32"), True, "True is no float32"),
        (TensorSpec("s", (), "bool"), 1, "1 is no bool"),
        (TensorSpec("s", (1,), "float32"), 1.0, r"shape \(\), expected \(1,\)"),
        (TensorSpec("s", (), "float32"), "1", "str is no array"),
    ],
)
def test_scalars_that_change_their_meaning(spec: TensorSpec, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_inputs([spec], {"s": value}, lambda value, where: None)


def test_values_share_the_arena() -> None:
    wiring, _ = make_wiring()
    program, _ = assemble(wiring)
    # p, q, y and two workspaces: never more than three at once.
    assert program.arena_bytes == 3 * 64
    offsets = {place.offset for place in program.steps[1].arguments if place.segment == "arena"}
    assert len(offsets) == 3


def test_a_value_that_nobody_writes_is_an_error() -> None:
    wiring, _ = make_wiring()
    with pytest.raises(AssemblyError, match="read before it is written"):
        assemble(make_wiring(calls=wiring.calls[1:])[0])
    with pytest.raises(AssemblyError, match="written twice"):
        assemble(make_wiring(calls=(*wiring.calls, wiring.calls[0]))[0])


def test_a_value_of_another_size_is_an_error() -> None:
    with pytest.raises(AssemblyError, match="'w' has 20 bytes, the kernel's argument 'b' 24"):
        make_module(constants={"w": np.zeros(5, np.float32)})
    with pytest.raises(AssemblyError, match="'p' has 4 bytes"):
        make_module(sizes={"p": 4})


def test_nan_weights_are_refused() -> None:
    weights = np.arange(COUNT, dtype=np.float32)
    weights[2] = np.nan
    with pytest.raises(AssemblyError, match="1 of 6 elements are NaN"):
        check_no_nan({"w": weights})


def test_calls_from_several_threads_do_not_mix() -> None:
    module = make_module()
    failures = []

    def work(scale: float) -> None:
        x = (X * scale).astype(np.float32)
        for _ in range(20):
            if not np.array_equal(module.run({"x": x})["y"], expected(x)):
                failures.append(scale)

    threads = [threading.Thread(target=work, args=(float(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_benchmark_summarises_the_runs() -> None:
    result = make_module().benchmark({"x": X}, repeats=5, warmup=1)
    assert len(result.seconds) == 5
    assert 0 < result.min <= result.median <= result.max
    assert "(runs 5, threads 1)" in str(result)
    assert result.to_json()["repeats"] == 5
    with pytest.raises(InputError, match="repeats"):
        make_module().benchmark({"x": X}, repeats=0)


def test_profile_rows_and_rest_sum_to_the_total(tmp_path: Any) -> None:
    profile = make_module().profile({"x": X}, repeats=3)
    assert [row.microseconds for row in profile.rows] == pytest.approx([1.0, 2.0, 3.0])
    parts = sum(row.microseconds for row in (*profile.rows, profile.rest))
    assert parts == pytest.approx(profile.total.microseconds)
    assert profile.rows[0].layers == "conv1" and profile.rows[0].gflops == pytest.approx(0.006)
    text = str(profile)
    assert "conv1" in text and "(rest)" in text and "(total)" in text
    profile.to_csv(tmp_path / "profile.csv")
    assert len((tmp_path / "profile.csv").read_text().splitlines()) == 6
    assert list(profile.to_pandas()["op"][:1]) == ["mul"]


def test_summary_names_tasks_without_a_record() -> None:
    text = make_module().summary()
    assert "3 kernels, 2 tasks" in text
    assert "2 of 2 tasks have no record" in text


def test_program_survives_json() -> None:
    program, _ = assemble(make_wiring()[0])
    assert program_of(program_json(program)) == program


def test_inputs_are_not_kept_alive() -> None:
    module, x = make_module(), X.copy()
    references = sys.getrefcount(x)
    module.run({"x": x})
    assert sys.getrefcount(x) == references


def test_misaligned_inputs_are_copied() -> None:
    raw = np.zeros(4 * COUNT + 1, np.uint8)
    x = raw[1:].view(np.float32).reshape(2, 3)
    x[...] = X
    assert not x.flags.aligned
    np.testing.assert_array_equal(make_module().run({"x": x})["y"], expected(X))


def test_threads_need_a_core_each() -> None:
    with pytest.raises(AssemblyError, match=r"cannot pin 1 thread to 2 cores .* give one core"):
        make_module().pin_threads([0, 1])


def test_no_steps_at_all() -> None:
    spec = TensorSpec("x", (2, 3), "float32")
    module = make_module(calls=(), outputs=((spec, "x"),), constants={})
    np.testing.assert_array_equal(module.run({"x": X})["x"], X)


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_module_is_not_copied_by_accident(copied):
    with pytest.raises(ExportError, match="cannot be pickled or copied") as refused:
        copied(make_module())
    assert "save()" in refused.value.hint

"""Denormal numbers become 0 in every thread of a run, or are kept; callers keep their own state."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Network, Value
from autosched.graph.ops.elementwise import UnaryOp
from autosched.measure.execution import Harness, LoadedKernel, aligned_empty
from autosched.runtime.module import Module
from autosched.system.errors import OptionError
from codegen.denormals import DENORMALS, Denormals
from codegen.entry import Entry, build_entry
from codegen.host import cpu_target
from codegen.kernel import Kernel
from codegen.llvm.denormals import denormals_text
from codegen.llvm.jit import Library, load, load_regions
from codegen.llvm.machine import emit_object, triple_of
from codegen.llvm.openmp_region import openmp_text
from codegen.llvm.region import REGION_SYMBOL
from codegen.llvm.team_region import team_text
from codegen.team import Team
from sketch.operators.softmax import softmax
from sketch.oracle.reference import reference

ROWS, WIDTH = 512, 128  # enough for two threads
TINY = np.float32(1e-44)
PROBES = """
define i32 @flushed() {
  %flushed = call i32 @denormals_flushed()
  ret i32 %flushed
}
define void @set(i32 %flush) {
  %state = call i64 @denormals_enter(i32 %flush)
  ret void
}
"""


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("denormals", DENORMALS)
def test_the_sign_of_what_counts_as_zero_is_zero(denormals: Denormals, dtype: type) -> None:
    """And that of a zero has none, as in NumPy; in vectors and in a tail."""
    numbers = [np.nan, 1, -1, 0.0, -0.0, np.inf, -np.inf, 2.5]
    tiny = np.finfo(dtype).smallest_subnormal
    given = np.resize(np.array([*numbers, tiny, -tiny], dtype), 39)
    builder = GraphBuilder("sign")
    data = builder.input(Value("data", given.shape, str(given.dtype)))
    graph = builder.finish({"out": builder.add(UnaryOp("sign"), (data,))})
    module = asd.compile(Network("sign", graph), effort="none", denormals=denormals)
    found = module.run({"data": given})["out"]
    small = np.abs(given) < np.finfo(dtype).tiny
    wanted = np.where(small, 0, np.sign(given)) if denormals == "flush" else np.sign(given)
    np.testing.assert_array_equal(found, wanted)
    assert not np.signbit(found[found == 0]).any()


@cache
def probes() -> Library:
    target = cpu_target("cpu", 1)
    triple = triple_of(target)
    text = f'target triple = "{triple}"\n{denormals_text(triple)}{PROBES}'
    return load([Kernel("probes", "set", emit_object(text, target), (), 0, target, 0)])


def flushed() -> bool:
    """What becomes of denormal numbers in this thread."""
    return bool(ctypes.CFUNCTYPE(ctypes.c_int)(probes().address("flushed"))())


@contextmanager
def caller(flush: bool) -> Iterator[None]:
    """A caller with a state of its own, as other libraries leave it."""
    change = ctypes.CFUNCTYPE(None, ctypes.c_int)(probes().address("set"))
    change(int(flush))
    try:
        yield
    finally:
        change(0)


def task(threads: int) -> asd.Task:
    """Probabilities times values, ``C = P @ V``."""
    p, v = asd.placeholder((ROWS, WIDTH), name="P"), asd.placeholder((WIDTH, WIDTH), name="V")
    k = asd.reduce_axis(WIDTH)
    c = asd.compute((ROWS, WIDTH), lambda i, j: asd.sum(p[i, k] * v[k, j], axis=k), name="C")
    return asd.Task(asd.ComputeDAG([c]), asd.Target("cpu", threads=threads))


@cache
def product(threads: int, denormals: Denormals) -> Module:
    return task(threads).module(denormals=denormals)


INPUTS = {
    "P": np.full((ROWS, WIDTH), TINY),
    "V": np.full((WIDTH, WIDTH), 1e10, np.float32),
}
KEPT = WIDTH * float(TINY) * 1e10


def check(outputs: np.ndarray[Any, Any], denormals: Denormals) -> None:
    wanted = 0.0 if denormals == "flush" else KEPT
    np.testing.assert_allclose(outputs, wanted, rtol=1e-5)


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_all_threads_follow_each_run(threads: int, flush: bool) -> None:
    for _ in range(20):
        for denormals in DENORMALS:
            module = product(threads, denormals)
            with caller(flush):
                outputs = module.run(INPUTS)["C"]
                assert flushed() == flush
            check(outputs, denormals)


CHUNK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def test_workers_are_in_the_state_of_the_caller() -> None:
    """Two chunks that wait for each other: each thread has one."""
    team, both, found = Team(2), threading.Barrier(2), dict[int, bool]()
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    region = ctypes.CFUNCTYPE(None, pointer, CHUNK, pointer, number, number)
    library = load_regions()

    def work(_: Any, __: int, thread: int) -> None:
        both.wait(30)
        found[thread] = flushed()

    for flush in (True, False, False, True):
        with caller(flush):
            region(library.address(REGION_SYMBOL))(team.address, CHUNK(work), None, 2, 2)
        assert found == {0: flush, 1: flush}


def test_modules_run_as_they_are_compiled() -> None:
    module = task(1).module()
    assert module.program.denormals == "flush"
    check(module.run(INPUTS)["C"], "flush")
    assert not flushed()


def test_profiles_and_benchmarks_leave_the_caller_alone() -> None:
    module = product(2, "flush")
    with module._loaded.call() as call:
        call.executor.bind(INPUTS)
        call.executor.run_timed(0 if call.team is None else call.team.address)
        assert not flushed()
        check(call.executor.results()["C"], "flush")


@pytest.mark.parametrize("denormals", DENORMALS)
@pytest.mark.parametrize("threads", [1, 2])
def test_candidates_are_timed_in_the_state_of_a_run(threads: int, denormals: Denormals) -> None:
    kernel = task(threads).compile()
    arrays = {**INPUTS, "C": np.full((ROWS, WIDTH), -1, np.float32)}
    workspace = aligned_empty((kernel.workspaces[0][1],), "uint8")
    assert isinstance(kernel, Kernel)
    loaded = LoadedKernel(kernel, [*(arrays[a.name] for a in kernel.arguments), workspace], {})
    Harness(kernel.target, denormals=denormals).run(loaded, 1, "warm")
    check(arrays["C"], denormals)
    assert not flushed()


def test_a_file_says_it_and_load_may_say_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "kept.asd"
    product(2, "keep").save(path)
    check(asd.load(path).run(INPUTS)["C"], "keep")
    check(asd.load(path, denormals="flush").run(INPUTS)["C"], "flush")


@pytest.mark.parametrize("denormals", DENORMALS)
@pytest.mark.parametrize("threads", [1, 2])
def test_libraries_do_the_same(threads: int, denormals: Denormals, tmp_path: Path) -> None:
    exported = product(threads, denormals).export_library(tmp_path / "lib")
    if exported.shared_library is None:  # type: ignore[union-attr]
        pytest.skip("no linker")
    library = ctypes.CDLL(str(exported.shared_library))  # type: ignore[union-attr]
    found = np.full((ROWS, WIDTH), -1, np.float32)
    sources = (ctypes.c_void_p * 2)(INPUTS["P"].ctypes.data, INPUTS["V"].ctypes.data)
    assert library.lib_init() == 0
    for flush in (False, True):
        with caller(flush):
            assert library.lib_run(sources, (ctypes.c_void_p * 1)(found.ctypes.data)) == 0
            assert flushed() == flush
        check(found, denormals)


def test_masked_attention_is_right() -> None:
    """Scores of -100 leave probabilities of 1e-44, which count as 0."""
    heads, tokens = 1, 16
    scores = asd.placeholder((heads, tokens, tokens), name="S")
    p = softmax(scores, name="P")
    v, k = asd.placeholder((heads, tokens, WIDTH), name="V"), asd.reduce_axis(tokens)
    c = asd.compute(
        (heads, tokens, WIDTH), lambda h, i, j: asd.sum(p[h, i, k] * v[h, k, j], axis=k), name="C"
    )
    program = asd.Task(asd.ComputeDAG([c]), asd.Target("cpu", threads=2))
    rng = np.random.default_rng(0)
    inputs = {
        tensor.name: rng.standard_normal(tensor.shape, dtype=np.float32) for tensor in (scores, v)
    }
    inputs["S"][:, :, tokens // 2 :] -= 100
    expected = reference(program.dag, inputs, rng)
    assert expected.check(program.module().run(inputs)) < 1e-6


def test_results_that_are_all_denormal_are_right_when_they_are_0() -> None:
    x = asd.placeholder((8,), name="x")
    dag = asd.ComputeDAG([asd.compute((8,), lambda i: x[i] * 1e-20, name="y")])
    expected = reference(dag, {"x": np.full(8, 1e-20, np.float32)}, np.random.default_rng(0))
    assert expected.check({"y": np.zeros(8, np.float32)}) == 0
    assert expected.check({"y": np.full(8, 1e-37, np.float32)}) > 1


def test_an_unknown_word_is_refused() -> None:
    unknown: Any = "flushed"
    with pytest.raises(OptionError, match="'flushed' is unknown"):
        task(1).module(denormals=unknown)
    with pytest.raises(OptionError, match="'flushed' is unknown"):
        asd.MeasureOptions(denormals=unknown)


def test_arm_has_a_state_too() -> None:
    target = cpu_target("cpu-neon", 2)
    for text in (team_text(triple_of(target)), openmp_text(triple_of(target))):
        assert emit_object(text, target).startswith(b"\x7fELF")
    assert build_entry(Entry("net", [], 0, [], 64), target).startswith(b"\x7fELF")

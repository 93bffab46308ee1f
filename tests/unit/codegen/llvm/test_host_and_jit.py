"""Targets of this machine, refusals of the loader, the native driver."""

from __future__ import annotations

import ctypes
import pickle
from dataclasses import replace

import numpy as np
import pytest

from codegen.build import build
from codegen.driver import build_driver
from codegen.host import INSTRUCTION_SETS, cache_sizes, cpu_target, host_target
from codegen.kernel import stored_shape
from codegen.llvm.jit import aligned_workspace, check_host, load, pointers
from codegen.llvm.machine import emit_object
from sketch.errors import TargetError
from sketch.nest.loopnest import Buffer, Scope
from sketch.target.target import Target
from tests.support.nests import conv_arrays, matmul

NEST = matmul(8, 16, 4, rows=4, vectors=1, lanes=8)


def test_host_target_is_runnable() -> None:
    target = host_target(1)
    check_host(target)
    assert target.threads == 1 and target.lanes() in (4, 8, 16)
    assert target.l1_bytes < target.l2_bytes <= target.l3_bytes


def test_caches_have_fallbacks() -> None:
    assert set(cache_sizes()) == {1, 2, 3}


def test_named_targets() -> None:
    for choice in INSTRUCTION_SETS:
        assert cpu_target(choice.name, 2).vector_bytes == choice.vector_bytes
    assert cpu_target("cpu", 1) == host_target(1)
    with pytest.raises(TargetError, match="unknown target 'vax'"):
        cpu_target("vax")
    with pytest.raises(TargetError, match="threads is 0"):
        host_target(0)


def test_named_instruction_sets_know_nothing_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = [cpu_target(choice.name, 2) for choice in INSTRUCTION_SETS]
    monkeypatch.setattr("codegen.host.cache_sizes", lambda: {1: 1 << 10, 2: 1 << 11, 3: 1 << 12})
    assert [cpu_target(choice.name, 2) for choice in INSTRUCTION_SETS] == before
    assert host_target(2).l3_bytes == 1 << 12


def test_load_refuses_instructions_that_the_machine_lacks() -> None:
    kernel = build(NEST, Target("cpu", "x86-64", "+sse2,+sse4a,+tbm"))
    with pytest.raises(TargetError, match="this machine lacks"):
        load([kernel])


def test_load_refuses_another_architecture() -> None:
    kernel = build(NEST, cpu_target("cpu-neon", 1))
    with pytest.raises(TargetError, match=r"this machine is .*, the code is for aarch64"):
        load([kernel])


def test_unknown_symbol() -> None:
    with pytest.raises(TargetError, match="'nothing'"):
        load([build(NEST, host_target(1))]).address("nothing")


def test_kernel_is_picklable_and_describes_its_arguments() -> None:
    kernel = pickle.loads(pickle.dumps(build(NEST, host_target(1), "mm")))
    assert kernel.symbol == "mm"
    assert [(a.name, a.shape, a.scope) for a in kernel.arguments] == [
        ("A", (8, 4), "input"),
        ("B", (2, 4, 8), "constant"),
        ("C", (8, 16), "output"),
    ]


def test_stored_shape_of_a_buffer_with_gaps_is_flat() -> None:
    buffer = Buffer("x", "float32", (3, 4), (8, 1), (1, 1), Scope.INPUT, 20)
    assert stored_shape(buffer) == (20,)


def test_the_name_of_a_nest_is_not_in_its_code() -> None:
    target = host_target(1)
    other = build(replace(NEST, name="conv 3x3/relu.0"), target)
    assert other.object_code == build(NEST, target).object_code


def test_building_twice_gives_the_same_object() -> None:
    target = host_target(1)
    assert build(NEST, target).object_code == build(NEST, target).object_code


def test_driver_runs_and_times_plans(rng: np.random.Generator) -> None:
    target = host_target(1)
    kernel = build(NEST, target)
    library = load([kernel, build_driver(target)])
    data = conv_arrays(NEST, rng)
    output = np.zeros((8, 16), np.float32)
    block = pointers([data["A"], data["B"], output], aligned_workspace(kernel.workspace_bytes))
    address = library.address(kernel.symbol)
    steps = (ctypes.c_void_p * 4)(*([address, ctypes.addressof(block)] * 2))
    times = np.zeros(2, np.int64)
    plan = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    )
    run = plan(library.address("run_plan"))
    run(ctypes.addressof(steps), 0, None, None, 0)
    assert not output.any()
    copy = np.zeros_like(output)
    copies = (ctypes.c_void_p * 3)(copy.ctypes.data, output.ctypes.data, output.nbytes)
    run(ctypes.addressof(steps), 2, None, ctypes.addressof(copies), 1)
    assert (copy == output).all()
    packed = data["B"].reshape(2, 4, 8).transpose(1, 0, 2).reshape(4, 16)
    np.testing.assert_allclose(output, data["A"].reshape(8, 4) @ packed, rtol=1e-4, atol=1e-5)
    timed = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
    )(library.address("run_plan_timed"))
    timed(ctypes.addressof(steps), 2, times.ctypes.data, None)
    assert (times > 0).all()
    clock = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
    )(library.address("time_kernel"))
    clock(address, ctypes.addressof(block), 3, times.ctypes.data, None)
    assert times[0] > 0
    before = output.copy()
    flush = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.address("flush_lines"))
    flush(output.ctypes.data, output.nbytes)
    assert (output == before).all()


def test_driver_compiles_for_arm() -> None:
    assert build_driver(cpu_target("cpu-neon", 1)).object_code[:4] == b"\x7fELF"


def test_a_cpu_that_llvm_does_not_know_is_only_ignored() -> None:
    """LLVM alone would end the process: no unknown CPU is one of 64 bits."""
    unknown = replace(cpu_target("cpu-avx2", 1), arch="no-such-cpu")
    text = "define i64 @f(i64 %x) {\n  ret i64 %x\n}"
    assert emit_object(text, unknown).startswith(b"\x7fELF")

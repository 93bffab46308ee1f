"""What NVRTC makes of kernels, run on NumPy, equals the oracle; faults are noticed."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from autosched.workloads import get
from codegen.cuda.build import emit
from codegen.cuda.kernel import CudaSource
from codegen.cuda.nvrtc import missing_compiler
from sketch.dag.dag import ComputeDAG
from sketch.oracle.interpret import interpret
from tests.support.cuda_mutants import Mutant, mutants_of
from tests.support.cuda_programs import GPU, feasible_nests
from tests.support.ptx.interpreter import run_kernel
from tests.support.ptx.memory import MemoryFault, Region
from tests.support.ptx.program import PtxError, parse_ptx
from tests.support.ptx.run import ptx_of, run_ptx
from tests.support.ptx.warp import DivergenceError
from tests.support.small_workloads import SMALL
from tests.support.workloads import (
    WORKLOADS,
    batch_matmul_dag,
    conv2d_relu,
    dense_relu,
    matmul_dag,
    random_inputs,
    row_sum,
)

needs_nvrtc = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))

PROGRAMS = {
    **{
        name: WORKLOADS[name]
        for name in ("matmul", "max_pool", "softmax", "argmax", "row_sum", "concat", "stencil")
    },
    **{name: partial(get(name).dag, *SMALL[name]) for name in ("GMM", "TBMM", "NRM")},
}
FAULTY: dict[str, Callable[[], ComputeDAG]] = {
    "matmul": lambda: matmul_dag(17, 19, 23),
    "dense_relu": lambda: dense_relu(13, 37, 29),
    "batch_matmul": lambda: batch_matmul_dag(3, 7, 11, 5),
    "conv2d": lambda: conv2d_relu(11, 5, 7, 3, 2, 1),
    **{name: partial(get(name).dag, *SMALL[name]) for name in ("GMM", "TBMM", "C1D")},
    **{name: WORKLOADS[name] for name in ("depthwise", "grouped_conv2d")},
    "row_sum": lambda: row_sum(3, 256),
}
_TOLERANCE = 2e-6
_QUICK_MUTANTS = 8
_ROWS_OF_MUTANTS = 6
# What a thread keeps in registers has no bounds that the compiler would keep.
_OF_REGISTERS = "local array halved"
# All lanes read a sum where only the first one uses it: the compiler lets only that one read.
_SUM_OF_ONE = re.compile(r"\n\s*;\n\s*\w+\[0\] = \w+_lanes\[thread - lane")


def error_of(source: CudaSource, ptx: str, dag: ComputeDAG, inputs: dict[str, np.ndarray]) -> float:
    """Relative to the largest value of the oracle."""
    found, wanted = run_ptx(source, ptx, inputs), interpret(dag, inputs)
    errors = [0.0]
    for name, result in found.items():
        expected = np.asarray(wanted[name], np.float64)
        difference = np.abs(result.reshape(expected.shape).astype(np.float64) - expected).max()
        errors.append(float(difference / max(np.abs(expected).max(), 1e-9)))
    return max(errors, key=lambda error: np.inf if np.isnan(error) else error)


@needs_nvrtc
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_programs_equal_the_oracle(name: str, rng: np.random.Generator) -> None:
    dag = PROGRAMS[name]()
    for nest in feasible_nests(dag, 1, rng):
        source = emit(nest, GPU)
        error = error_of(source, ptx_of(source.text), dag, random_inputs(dag, rng))
        assert error <= _TOLERANCE, source.text


def noticed(mutant: Mutant, dag: ComputeDAG, inputs: dict[str, np.ndarray]) -> bool:
    """Whether the interpreter reports a fault, or the result is wrong."""
    try:
        return not error_of(mutant.source, ptx_of(mutant.source.text), dag, inputs) <= _TOLERANCE
    except (MemoryFault, DivergenceError):
        return True


def mutants(
    dag: ComputeDAG, rows: int, rng: np.random.Generator
) -> list[tuple[Mutant, dict[str, np.ndarray]]]:
    inputs = random_inputs(dag, rng)
    return [
        (mutant, inputs)
        for nest in feasible_nests(dag, rows, rng)
        for mutant in mutants_of(emit(nest, GPU))
        if mutant.kind != _OF_REGISTERS and not _SUM_OF_ONE.search(mutant.source.text)
    ]


@needs_nvrtc
def test_faults_of_a_matrix_product_are_noticed(rng: np.random.Generator) -> None:
    dag = matmul_dag(9, 10, 11)
    cases = mutants(dag, 2, rng)[:_QUICK_MUTANTS]
    assert len({mutant.kind for mutant, _ in cases}) > 2
    assert [m.fault for m, inputs in cases if not noticed(m, dag, inputs)] == []


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FAULTY))
def test_faults_of_random_rows_are_noticed(name: str, rng: np.random.Generator) -> None:
    dag = FAULTY[name]()
    cases = mutants(dag, _ROWS_OF_MUTANTS, rng)
    assert cases
    assert [m.fault for m, inputs in cases if not noticed(m, dag, inputs)] == []


HEAD = """.version 9.0
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 p, .param .u64 q)
{
  .reg .pred %p<9>;  .reg .b32 %r<20>;  .reg .b64 %rd<20>;  .reg .f32 %f<20>;
  .shared .align 16 .b8 tile[256];
  ld.param.u64 %rd1, [p];
  ld.param.u64 %rd2, [q];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  mov.u32 %r2, tile;
  shl.b32 %r3, %r1, 2;
  add.s32 %r4, %r2, %r3;
"""
READ = "ld.global.f32 %f1, [%rd4];\n"
THREADS = 32


def run_text(body: str, threads: int = THREADS, grid: int = 1) -> np.ndarray:
    """Run a kernel with ``body``; parameter p: 0, 1, 2 ..., read only; the result is q."""
    kernel = parse_ptx(HEAD + body + "ret;\n}\n")["kernel"]
    given, result = np.arange(THREADS, dtype=np.float32), np.full(THREADS, -1, np.float32)
    regions = [Region.of("p", 0, given, False, True), Region.of("q", 0, result, True, False)]
    run_kernel(kernel, grid, threads, regions)
    return result


EXCHANGE = """st.shared.f32 [%r4], %f1;
{barrier}
xor.b32 %r5, %r3, 124;
add.s32 %r6, %r2, %r5;
ld.shared.f32 %f2, [%r6];
st.global.f32 [%rd5], %f2;
"""


def test_values_pass_through_shared_memory() -> None:
    found = run_text(READ + EXCHANGE.format(barrier="bar.sync 0;"))
    np.testing.assert_array_equal(found, np.arange(THREADS)[::-1])


def test_a_shuffle_gives_the_value_of_another_thread() -> None:
    body = READ + "shfl.sync.bfly.b32 %r5|%p1, %f1, 1, 31, -1;\nst.global.b32 [%rd5], %r5;\n"
    np.testing.assert_array_equal(run_text(body), np.arange(THREADS) ^ 1)
    body = READ + "shfl.sync.down.b32 %r5|%p1, %f1, 16, 31, -1;\nst.global.b32 [%rd5], %r5;\n"
    np.testing.assert_array_equal(run_text(body)[:16], np.arange(16, 32))


COPY = """cp.async.ca.shared.global [%r4], [%rd4], 4;
cp.async.commit_group;
{wait}
{barrier}
xor.b32 %r5, %r3, 124;
add.s32 %r6, %r2, %r5;
ld.shared.f32 %f2, [%r6];
st.global.f32 [%rd5], %f2;
"""


def test_asynchronous_copies_arrive_when_waited_for() -> None:
    body = COPY.format(wait="cp.async.wait_group 0;", barrier="bar.sync 0;")
    np.testing.assert_array_equal(run_text(body), np.arange(THREADS)[::-1])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (READ + EXCHANGE.format(barrier=""), "race: read without a barrier"),
        (COPY.format(wait="cp.async.wait_group 1;", barrier="bar.sync 0;"), "asynchronous copy"),
        (COPY.format(wait="", barrier="bar.sync 0;"), "asynchronous copy"),
        (COPY.format(wait="cp.async.wait_group 0;", barrier=""), "race: read without a barrier"),
        ("st.global.f32 [%rd2], 0f00000000;\n", "two threads write"),
        ("st.global.f32 [%rd4], 0f00000000;\n", "read-only"),
        ("st.global.f32 [%rd5+4], 0f00000000;\n", "write out of bounds"),
        ("ld.global.f32 %f1, [%rd4+-4];\n", "read out of bounds"),
        ("ld.global.f32 %f1, [%rd5];\n", "uninitialised read"),
        ("ld.shared.f32 %f1, [%r4];\n", "uninitialised read"),
        ("st.shared.f32 [%r4+192], 0f00000000;\n", "write out of bounds"),
        ("ld.global.v2.f32 {%f1, %f2}, [%rd4];\n", "misaligned access of 8 bytes"),
    ],
)
def test_faults_of_memory_are_reported(body: str, message: str) -> None:
    with pytest.raises(MemoryFault, match=message):
        run_text(body)


def test_blocks_do_not_wait_for_each_other() -> None:
    body = "setp.eq.u32 %p1, %ctaid.x, 0;\n@%p1 st.global.f32 [%rd5], 0f00000000;\nbar.sync 0;\n"
    run_text(body, grid=2)
    with pytest.raises(MemoryFault, match="race: read without a barrier"):
        run_text(body + "@!%p1 ld.global.f32 %f1, [%rd5];\n", grid=2)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("@%p1 shfl.sync.bfly.b32 %r5, %r1, 8, 31, -1;\n", "with thread 7, which is elsewhere"),
        ("shfl.sync.bfly.b32 %r5, %r1, 8, 31, 65535;\n", "lane 16 exchanges .* is no member"),
    ],
)
def test_exchanges_are_between_all_members(body: str, message: str) -> None:
    with pytest.raises(DivergenceError, match=message):
        run_text("setp.lt.u32 %p1, %r1, 7;\n" + body)


def test_a_barrier_that_some_threads_miss_is_reported() -> None:
    body = "setp.lt.u32 %p1, %r1, 7;\n@%p1 bra $done;\nbar.sync 0;\n$done:\n"
    with pytest.raises(DivergenceError, match="25 of 32 threads"):
        run_text(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mma.sync.unknown %f1, %f2;\n", "no instruction mma"),
        ("mov.u32 %x1, 0;\n", "not declared"),
    ],
)
def test_what_is_not_understood_is_refused(body: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        run_text(body)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("mul.hi.s32 %r5, -7, 1717986919;", -3),
        ("shr.s32 %r5, -8, 40;", -1),
        ("shl.b32 %r5, 1, 32;", 0),
        ("bfe.s32 %r5, 240, 4, 4;", -1),
        ("bfe.u32 %r5, 240, 4, 4;", 15),
        ("bfi.b32 %r5, 18, 4095, 4, 3;", 0xFAF),
        ("bfi.b32 %r5, -1, 0, 28, 8;", -(2**28)),
        ("prmt.b32 %r5, 67305985, 134678021, 29985;", 0x08060302),
        ("lop3.b32 %r5, 12, 10, 0, 192;", 8),
        ("dp4a.s32.s32 %r5, 16909060, -1, 3;", -7),
        ("dp2a.lo.u32.u32 %r5, 131073, 513, 3;", 8),
        ("div.s32 %r5, -7, 2;", -3),
        ("rem.s32 %r5, -7, 2;", -1),
        ("cvt.rzi.s32.f32 %r5, 0fC0200000;", -2),
        ("cvt.rzi.s32.f32 %r5, 0f7F800000;", 2**31 - 1),
        ("cvt.rni.s32.f32 %r5, 0f40200000;", 2),
        ("popc.b32 %r5, 255;", 8),
        ("clz.b32 %r5, 255;", 24),
        ("selp.b32 %r5, 3, 4, 0;", 4),
        ("shf.l.wrap.b32 %r5, -2147483648, 1, 1;", 3),
    ],
)
def test_integer_instructions(instruction: str, expected: int) -> None:
    body = f"{instruction}\nst.global.b32 [%rd5], %r5;\n"
    assert int(run_text(body).view(np.int32)[0]) == expected


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("fma.rm.f32 %f2, 0f3F800001, 0f3F800001, 0f00000000;", np.float32(1.0000002)),
        ("add.sat.f32 %f2, 0f3F800000, 0f3F800000;", np.float32(1)),
        ("mul.ftz.f32 %f2, 0f00800000, 0f3F000000;", np.float32(0)),
        ("max.f32 %f2, 0f7FC00000, 0f3F800000;", np.float32(1)),
        ("copysign.f32 %f2, 0f80000000, 0f3F800000;", np.float32(-1)),
        ("rcp.rn.f32 %f2, 0f40000000;", np.float32(0.5)),
    ],
)
def test_floating_point_instructions(instruction: str, expected: np.float32) -> None:
    body = f"{instruction}\nst.global.f32 [%rd5], %f2;\n"
    assert run_text(body)[0] == expected

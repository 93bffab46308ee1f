"""Emulation that sees memory: faults are reported by buffer, index, threads and block."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.kernel import CudaKernel, CudaSource, Launch
from codegen.errors import CodegenError
from codegen.file_cache import FileCache
from codegen.gpu.emulated import EmulatedDevice
from codegen.gpu.emulation.checked import CheckedProgram, compile_checked
from codegen.gpu.emulation.library import EmulationError, compiler
from codegen.gpu.errors import DeviceLostError
from codegen.kernel import Argument
from sketch.target.gpu_targets import cuda_target, emulated

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")

THREADS, GRID = 64, 2
PIECES = """
template <int N, int A, class T> void load_piece(T *vector, const T *first);
template <int N, int A, class T> void store_piece(T *first, const T *vector);
"""
HEAD = """
extern "C" __global__ void __launch_bounds__(64)
kernel_0(const float* __restrict__ x, float* __restrict__ y, float* __restrict__ w) {
  const int thread = threadIdx.x;
  const int block = blockIdx.x;
  const int place = 64 * block + thread;
  %s
}
"""
ARGUMENTS = (
    Argument("x", "float32", (128,), "input"),
    Argument("y", "float32", (128,), "output"),
)
LAUNCH = Launch("kernel_0", GRID, THREADS, ("x", "y", "w"), ("const float*", "float*", "float*"))
X = np.arange(128, dtype=np.float32)
TILE = "__shared__ float tile[64];\n  "
COPY = "y[place] = x[place];"

RIGHT = {
    "copy": (COPY, X),
    "barrier": (
        TILE + "tile[thread] = x[place]; __syncthreads();\n  y[place] = tile[63 - thread];",
        X.reshape(2, 64)[:, ::-1].reshape(-1),
    ),
    "own cell": (TILE + "tile[thread] = x[place];\n  y[place] = tile[thread];", X),
    "exchange": (
        "y[place] = __shfl_xor_sync(0xffffffffu, x[place], 1);",
        X.reshape(-1, 2)[:, ::-1],
    ),
    "exchange by five bits": ("y[place] = __shfl_xor_sync(0xffffffffu, x[place], 32);", X),
    "exchange of one warp": (
        "float v[1];\n  v[0] = x[place];\n"
        "  if (thread < 32) {\n    v[0] = __shfl_xor_sync(0xffffffffu, v[0], 31);\n  }\n"
        "  __syncthreads();\n  y[place] = v[0];",
        np.where(X.reshape(4, 32) % 64 < 32, X.reshape(4, 32)[:, ::-1], X.reshape(4, 32)),
    ),
    "pieces": (
        "float v[4];\n"
        "  if (thread < 16) {\n    load_piece<4, 16>(v, &x[64 * block + 4 * thread]);\n"
        "    store_piece<4, 16>(&y[64 * block + 4 * thread], v);\n  }",
        X,
    ),
    "indirect": (
        TILE + "tile[thread] = 63 - thread; __syncthreads();\n"
        "  y[64 * block + (int)tile[thread]] = x[64 * block + (int)tile[thread]];",
        X,
    ),
}  # fmt: skip

WRONG = {
    "read after write": (
        TILE + "tile[thread] = x[place];\n  y[place] = tile[thread / 2 * 2];",
        r"thread 1 of block 0 reads tile\[0\], which thread 0 writes since the last barrier",
    ),
    "write after read": (
        TILE + "tile[thread] = x[place]; __syncthreads();\n  y[place] = tile[(thread + 1) % 64];\n"
        "  tile[thread] = 0;",
        r"thread 1 of block 0 writes tile\[1\], which thread 0 reads since the last barrier",
    ),
    "write after reads": (
        TILE + "tile[thread] = x[place]; __syncthreads();\n  y[place] = tile[63] ;\n"
        "  if (thread == 63) tile[thread] = 0;",
        r"thread 63 of block 0 writes tile\[63\], which several threads reads",
    ),
    "write after write": (
        TILE + "tile[0] = 1.0f;\n  y[place] = x[place];",
        r"thread 1 of block 0 writes tile\[0\], which thread 0 writes since the last barrier",
    ),
    "an exchange orders no memory": (
        TILE + "tile[thread] = x[place];\n"
        "  const float v = __shfl_xor_sync(0xffffffffu, x[place], 1);\n"
        "  y[place] = tile[thread ^ 1];",
        r"reads tile\[\d+\], which thread \d+ writes since the last barrier",
    ),
    "nothing written": (
        TILE + "y[place] = tile[thread];",
        r"thread 0 of block 0 reads tile\[0\], which nothing has written",
    ),
    "written in the block before": (
        TILE + "if (block == 0) tile[thread] = 0;\n  y[place] = tile[thread];",
        r"thread 0 of block 1 reads tile\[0\], which nothing has written",
    ),
    "local, nothing written": (
        "float v[2];\n  v[0] = x[place];\n  y[place] = v[1];",
        r"reads v\[1\], which nothing has written",
    ),
    "global, nothing written": ("y[place] = w[place];", r"reads w\[0\], which nothing has written"),
    "shared, outside": (
        TILE + "tile[thread + 1] = x[place];",
        r"thread 63 of block 0 writes tile\[64\], which has 64 elements",
    ),
    "local, outside": ("float v[2];\n  v[2] = x[place];", r"writes v\[2\], which has 2 elements"),
    "below": ("y[place] = x[place - 1];", r"reads x\[-1\], which has 128 elements"),
    "above": ("y[place + 1] = x[place];", r"writes y\[128\], which has 128 elements"),
    "read-only": ("x[place] = 0.0f;", r"writes x\[0\], which is read-only"),
    "blocks write": (
        "y[thread] = x[place];",
        r"thread 0 of block 1 writes y\[0\], which thread 0 of block 0 writes in the same launch",
    ),
    "blocks read": (
        "y[place] = x[place]; __syncthreads();\n  w[place] = y[thread];",
        r"thread 0 of block 1 reads y\[0\], which thread 0 of block 0 writes in the same launch",
    ),
    "threads write": ("y[block] = x[place];", r"thread 1 of block 0 writes y\[0\], which thread 0"),
    "misaligned": (
        "float v[4];\n  load_piece<4, 16>(v, &x[1]);",
        r"reads 16 bytes at x\[1\], which is not aligned to 16 bytes",
    ),
    "misaligned store": (
        "float v[2];\n  load_piece<2, 8>(v, &x[0]);\n  store_piece<2, 8>(&y[2 * place + 1], v);",
        r"thread 0 of block 0 writes 8 bytes at y\[1\], which is not aligned to 8 bytes",
    ),
    "shared memory of small alignment": (
        TILE + "float v[2];\n  tile[2 * thread % 64] = 0;\n"
        "  load_piece<2, 8>(v, &tile[2 * thread % 64]);",
        r"reads 8 bytes at tile\[0\], which is not aligned to 8 bytes",
    ),
    "piece outside": (
        "float v[4];\n  load_piece<4, 16>(v, &x[4 * place]);",
        r"thread 32 of block 0 reads x\[128\]",
    ),
    "barrier of some": (
        "if (thread < 5) __syncthreads();\n  " + COPY,
        "some threads do not reach a barrier",
    ),
    "exchange elsewhere": (
        "float v[1];\n  v[0] = 0;\n"
        "  if (thread < 5) v[0] = __shfl_xor_sync(0xffffffffu, x[place], 1);",
        "exchanges values with threads that do not take part",
    ),
    "exchange with no member": (
        "y[place] = __shfl_xor_sync(0xffffu, x[place], 1);",
        "exchanges values with threads that",
    ),
    "trap": ("if (x[place] > 70) __trap();", "block 1: a thread stops with a trap"),
    "crash": ("y[place] = place / ((int)x[place] - 3);", "ends with signal 8"),
    "crash of an address": ("*(volatile int *)16 = 1;", "ends with signal 11"),
}  # fmt: skip


def source(body: str) -> CudaSource:
    text = PIECES + HEAD % body
    return CudaSource("case", text, (LAUNCH,), ARGUMENTS, (("w", 512),))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CheckedProgram]:
    bodies = {name: body for name, (body, _) in (*RIGHT.items(), *WRONG.items())}
    made = compile_checked(list(map(source, bodies.values())), tmp_path_factory.mktemp("checked"))
    return dict(zip(bodies, made, strict=True))


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("reverse", [False, True])
def test_right_programs_give_results(
    name: str, reverse: bool, programs: dict[str, CheckedProgram]
) -> None:
    result = programs[name].run({"x": X}, reverse)["y"]
    np.testing.assert_array_equal(result, RIGHT[name][1].reshape(-1))


@pytest.mark.parametrize("name", WRONG)
def test_faults_are_reported(name: str, programs: dict[str, CheckedProgram]) -> None:
    with pytest.raises(EmulationError, match=WRONG[name][1]):
        programs[name].run({"x": X})
    with pytest.raises(EmulationError):
        programs[name].run({"x": X}, reverse=True)


def test_what_a_launch_writes_the_next_one_reads(tmp_path: Path) -> None:
    text = HEAD % COPY + (
        'extern "C" __global__ void __launch_bounds__(32)\n'
        "kernel_1(const float* __restrict__ y, float* __restrict__ w) {\n"
        "  w[threadIdx.x] = y[127 - threadIdx.x];\n}\n"
    )
    odd = 'z "é"\\\n'  # as users may call a tensor
    again = Launch("kernel_1", 1, 32, ("w", odd), ("const float*", "float*"))
    result = Argument(odd, "float32", (32,), "output")
    copy = replace(LAUNCH, buffers=("x", "w", "y"))
    two = CudaSource("two", text, (copy, again), (*ARGUMENTS, result), (("w", 512),))
    (made,) = compile_checked([two], tmp_path)
    np.testing.assert_array_equal(made.run({"x": X})[odd], X[:95:-1])


def test_the_emulated_device_checks_where_it_is_asked_to(tmp_path: Path) -> None:
    target = emulated(cuda_target("h200"), checked=True)
    out = np.zeros(128, np.float32)
    with EmulatedDevice(target, FileCache(tmp_path)) as device:
        stream = device.stream()
        addresses = [device.allocate(512) for _ in LAUNCH.buffers]
        stream.copy_in(addresses[0], X)
        stream.fill(addresses[1], 0, 512)
        body = "y[place] = y[place] + x[place]; if (x[0] > 0) y[0] = 0;"
        code = device.load(CudaKernel(source(body), target, b"", ()), 1e-3)
        stream.launch(code.launches[0], addresses)
        stream.copy_out(out, addresses[1])
        np.testing.assert_array_equal(out, X)
        stream.copy_in(addresses[0], X + 1)
        stream.launch(code.launches[0], addresses)
        with pytest.raises(DeviceLostError, match=r"thread 1 of block 0 writes y\[0\]"):
            stream.synchronise()


def test_a_text_that_does_not_compile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CodegenError, match="refuses the program"):
        compile_checked([source("this is no C++")], tmp_path)

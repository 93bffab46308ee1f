"""CUDA text compiled to machine code, without a GPU."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.build import build, emit
from codegen.cuda.compile import compiled
from codegen.cuda.kernel import Resources
from codegen.cuda.nvrtc import compile_source, missing_compiler, parse_resources, with_room
from codegen.errors import CodegenError
from codegen.file_cache import FileCache
from sketch.errors import TargetError
from sketch.population.feasible_gpu import registers_of
from sketch.target.gpu_targets import cuda_target
from tests.support.cuda_programs import GPU, feasible_nests, matmul_nest
from tests.support.examples import half
from tests.support.workloads import WORKLOADS, conv2d_relu

MISSING = missing_compiler()
needs_nvrtc = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'second' for 'sm_90'
ptxas info    : Function properties for second
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers, 8 bytes cumulative stack size
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 48 registers, used 1 barriers, 8192 bytes smem
"""


def test_resources_are_read_from_the_log() -> None:
    found = parse_resources(LOG)
    assert found == {
        "second": Resources(255, 12, 16, 8, 0),
        "first": Resources(48, 0, 0, 0, 8192),
    }
    assert found["second"].spills and not found["first"].spills


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_matrix_product_compiles(arch: str) -> None:
    kernel = build(matmul_nest(), cuda_target(arch))
    assert kernel.cubin.startswith(b"\x7fELF")
    ((symbol, resources),) = kernel.resources
    assert symbol == kernel.source.launches[0].symbol
    assert resources.shared_bytes == 384
    assert 8 < resources.registers <= 255
    assert resources.stack_bytes == 0 and not kernel.spills
    assert pickle.loads(pickle.dumps(kernel)) == kernel


@needs_nvrtc
@pytest.mark.parametrize("name", ["softmax", "argmax", "row_sum", "concat", "stencil", "chain"])
def test_programs_without_tiles_compile(name: str, rng: np.random.Generator) -> None:
    nest = next(feasible_nests(WORKLOADS[name](), 1, rng))
    kernel = build(nest, GPU)
    assert len(kernel.resources) == len(kernel.source.launches) == len(nest.roots)


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_random_rows_compile(name: str, rng: np.random.Generator) -> None:
    for nest in feasible_nests(WORKLOADS[name](), 2, rng):
        assert build(nest, GPU).cubin


@needs_nvrtc
@pytest.mark.parametrize("shape", half([(14, 256, 256), (56, 64, 64)]), ids=str)
def test_drawn_rows_are_short_and_keep_their_values_in_registers(
    shape: tuple[int, int, int], rng: np.random.Generator
) -> None:
    for nest in feasible_nests(conv2d_relu(*shape), 1, rng):
        cubin, resources = compile_source(emit(nest, GPU), GPU.arch)
        assert len(cubin) <= 65536  # more code than this takes seconds to compile
        for (_, found), root in zip(resources, nest.roots, strict=True):
            assert not found.spills
            # 128: what a second attempt may use
            assert found.registers <= max(2 * registers_of(root, GPU), 128)


def test_a_second_attempt_leaves_room_for_registers() -> None:
    source = emit(matmul_nest(), GPU)
    text = with_room(source)
    assert "__launch_bounds__(16, 24)\nkernel_0(" in text
    assert text.replace("(16, 24)", "(16)") == source.text


@needs_nvrtc
def test_a_program_is_compiled_once_and_again_when_its_file_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, cache = emit(matmul_nest(), GPU), FileCache(tmp_path)
    made = compiled(source, "sm_90", cache)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    monkeypatch.setattr("codegen.cuda.compile.compile_source", lambda *_: pytest.fail("again"))
    assert compiled(source, "sm_90", cache) == made
    monkeypatch.setattr("codegen.cuda.compile.compile_source", lambda *_: made)
    for damage in (whole[:-1], b"", b"{}\n", b"[1]\nx"):
        file.write_bytes(damage)
        assert compiled(source, "sm_90", cache) == made and file.read_bytes() == whole
    compiled(source, "sm_80", cache)
    assert len(list(tmp_path.iterdir())) == 2
    monkeypatch.setattr("codegen.cuda.nvrtc.release_of_compiler", lambda: (99, 0))
    compiled(source, "sm_80", cache)
    monkeypatch.setattr("codegen.cuda.nvrtc._options", lambda arch: [f"other {arch}"])
    compiled(source, "sm_80", cache)
    assert len(list(tmp_path.iterdir())) == 4


@needs_nvrtc
def test_architectures_without_code_are_named() -> None:
    with pytest.raises(TargetError, match=r"NVRTC 13\.\d+ has no code for sm_70: .*sm_90"):
        compiled(emit(matmul_nest(), GPU), "sm_70")


@needs_nvrtc
def test_what_the_compiler_refuses_is_an_error_with_its_log() -> None:
    source = emit(matmul_nest(), GPU)
    broken = replace(source, text=source.text.replace("A_cache", "unknown", 1))
    with pytest.raises(CodegenError, match=r"NVRTC refuses C for sm_90: .*undefined"):
        compile_source(broken, "sm_90")

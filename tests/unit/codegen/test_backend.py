"""One entry for all back ends, and what is said where a part of one is missing."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

import autosched as asd
from autosched import zoo
from autosched.measure.runner import LocalRunner
from codegen import backend as backends
from codegen.backend import BACKENDS, CPU, CUDA, build_kernel, check_runs
from codegen.cuda.kernel import CudaKernel, CudaSource, Launch, Resources
from codegen.errors import CodegenError, InfeasibleError
from codegen.gpu.missing import missing_device
from codegen.host import host_target
from codegen.kernel import CompiledKernel, Kernel
from sketch.dag.dag import ComputeDAG
from sketch.errors import TargetError
from sketch.lower import lower
from sketch.nest.loopnest import LoopNest
from sketch.operators.matmul import matmul
from sketch.rules.backend import SKETCH_BACKENDS, default_rules, sketch_backend
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from tests.support.targets import AVX512

GPU = cuda_target()


def task(target: Target) -> asd.Task:
    a = asd.placeholder((64, 32), name="a")
    b = asd.placeholder((32, 48), name="b", constant=True)
    return asd.Task(ComputeDAG([matmul(a, b)]), target)


def test_rules_algorithms_and_feasibility_come_together() -> None:
    assert [backend.sketches for backend in BACKENDS] == list(SKETCH_BACKENDS)
    for target, backend in ((AVX512, CPU), (GPU, CUDA)):
        assert sketch_backend(target) is backend.sketches
        assert default_rules(target) is backend.sketches.rules


def test_a_task_is_compiled_by_the_back_end_of_its_target(monkeypatch: pytest.MonkeyPatch) -> None:
    on_cpu: CompiledKernel = task(AVX512).compile()
    assert isinstance(on_cpu, Kernel) and on_cpu.object_code[:4] == b"\x7fELF"

    def build(nest: LoopNest, target: Target, symbol: str) -> CudaKernel:
        return CudaKernel(CudaSource(nest.name, "", (), (), ()), target, b"cubin", ())

    own = replace(CUDA, build=build)
    monkeypatch.setattr(backends, "BACKENDS", (CPU, own))
    on_gpu: CompiledKernel = task(GPU).compile()
    assert on_gpu.target == GPU and on_gpu.object_code == b"cubin"


def test_nests_of_a_gpu_are_no_code_for_a_cpu() -> None:
    chosen = task(GPU).draft_candidate()
    nest = lower(chosen.sketch, dict(chosen.values))
    with pytest.raises(CodegenError, match="of kind"):
        build_kernel(nest, AVX512)


@pytest.mark.skipif(missing_device(GPU) is None, reason="there is a GPU")
def test_what_is_missing_is_said_once_and_clearly() -> None:
    net = zoo.build("mlp")
    check_runs(host_target(1), "do anything")
    for run in (
        lambda: check_runs(GPU, "do it"),
        lambda: task(GPU).tune(4),
        lambda: asd.tune(net, GPU, trials=4),
        lambda: LocalRunner(GPU),
    ):
        with pytest.raises(TargetError, match=r"no CUDA driver .*--device emulated"):
            run()


@pytest.mark.parametrize(
    "used, message",
    [
        ({"registers": 255}, ""),
        ({"registers": 257}, "65792 registers a block, the limit is 65536"),
        ({"spill_store_bytes": 32, "spill_load_bytes": 32}, ""),
        ({"spill_store_bytes": 65}, "65 bytes of spilled registers a thread, the limit is 64"),
        ({"shared_bytes": 98 << 10}, ""),
        ({"shared_bytes": 164 << 10}, "268288 bytes of shared memory a block, the limit is 232448"),
    ],
)
def test_kernels_that_ask_too_much_are_infeasible(used: dict[str, int], message: str) -> None:
    source = CudaSource("C", "", (Launch("kernel_0", 4, 256, (), (), 98 << 10),), (), ())
    resources = replace(Resources(128, 0, 0, 0, 1024), **used)
    kernel = CudaKernel(source, GPU, b"cubin", (("kernel_0", resources),))
    with pytest.raises(InfeasibleError, match=message) if message else nullcontext():
        CUDA.check(kernel)

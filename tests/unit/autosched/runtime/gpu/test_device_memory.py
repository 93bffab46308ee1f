"""What a program takes of a GPU and gives back; others keep the context alive all the time."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest

import autosched as asd
from autosched.runtime.gpu.program import DeviceProgram
from autosched.runtime.gpu.resident import Resident
from codegen.cuda.kernel_files import StoredKernel, stored_kernels
from codegen.gpu.emulation.library import compiler
from codegen.gpu.errors import DeviceMemoryError
from tests.support.device_networks import EMULATED, loop_network
from tests.support.driver_bindings import Bindings, opened

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")


@pytest.fixture(scope="module")
def module() -> asd.Module:
    return asd.compile(loop_network(), EMULATED)


def kernels_of(module: asd.Module) -> dict[str, StoredKernel]:
    stored = stored_kernels(module.objects, module.target)
    return {
        symbol: replace(each, kernel=replace(each.kernel, cubin=b"cubin"))
        for symbol, each in stored.items()
    }


def on_gpu(module: asd.Module, bindings: Bindings) -> DeviceProgram:
    constants = np.zeros(max(64, module.program.constants_bytes), np.uint8)
    resident = Resident(opened(bindings), module.program, constants, kernels_of(module))
    return DeviceProgram(resident, {})


def test_a_program_gives_back_all_it_had(module: asd.Module) -> None:
    bindings = Bindings()
    program = on_gpu(module, bindings)
    with program.call() as call:
        call.once(module.random_inputs())
    assert {"cuModuleUnload", "cuMemFree", "cuMemFreeHost"} <= {end for end, _ in bindings.alive}
    del program, call
    gc.collect()
    assert bindings.alive == [] and bindings.elsewhere == []


def test_results_on_the_device_keep_it(module: asd.Module) -> None:
    bindings = Bindings()
    program = on_gpu(module, bindings)
    out = program.submit(module.random_inputs(), None)
    del program
    gc.collect()
    assert "cuMemFree" in {end for end, _ in bindings.alive}
    del out
    gc.collect()
    assert bindings.alive == []


@pytest.mark.parametrize(
    "function", ["cuModuleLoadData", "cuModuleGetFunction", "cuMemAlloc", "cuMemcpyHtoDAsync"]
)
def test_a_program_without_room_leaves_nothing(module: asd.Module, function: str) -> None:
    bindings = Bindings()
    bindings.fail[function] = "CUDA_ERROR_OUT_OF_MEMORY"
    with pytest.raises(DeviceMemoryError) as caught:
        on_gpu(module, bindings)
    assert bindings.alive == [] and caught.value  # while somebody has the error


def test_a_caller_without_room_leaves_the_program_as_it_was(module: asd.Module) -> None:
    bindings = Bindings()
    program = on_gpu(module, bindings)
    with program.call():
        before = sorted(bindings.alive)
        bindings.fail["cuMemAllocHost"] = "CUDA_ERROR_OUT_OF_MEMORY"
        with pytest.raises(DeviceMemoryError), program.call():
            pass
        gc.collect()
        assert sorted(bindings.alive) == before

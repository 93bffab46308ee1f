"""Exported programs for GPUs, compiled by the C compiler and run on a driver that emulates."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.runtime.gpu import export
from autosched.runtime.gpu.export import ExportedSource
from codegen.cuda.kernel_files import StoredKernel, stored_kernels
from codegen.cuda.nvrtc import missing_compiler
from codegen.gpu.emulation.library import compile_unit, translation_unit
from tests.support.device_networks import loop_network

DRIVER = Path(asd.__file__).parents[1] / "tests" / "support" / "cuda_driver"
ANOTHER = 4096  # a context of the caller's
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(exported: ExportedSource, module: asd.Module, folder: Path) -> ctypes.CDLL:
    assert COMPILER is not None
    stored = stored_kernels(module.objects, module.target)
    emulated = folder / "emulated.so"
    compile_unit(translation_unit([kernel.kernel.source for kernel in stored.values()]), emulated)
    library = folder / "program.so"
    command = [COMPILER, "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared"]
    command += ["-fPIC", "-Wno-unused-parameter", f"-I{DRIVER}", f'-DEMULATED="{emulated}"']
    command += [str(exported.source), str(DRIVER / "driver.c"), "-o", str(library), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(library))


def asking(files: Mapping[str, bytes], target: asd.Target) -> dict[str, StoredKernel]:
    """The kernels of files, as if their launches asked for shared memory."""
    found = stored_kernels(files, target)
    for symbol, stored in found.items():
        source = stored.kernel.source
        launches = tuple(replace(launch, shared_bytes=64) for launch in source.launches)
        kernel = replace(stored.kernel, source=replace(source, launches=launches))
        found[symbol] = replace(stored, kernel=kernel)
    return found


def submit_from_anywhere(
    library: ctypes.CDLL,
    context: ctypes.c_void_p,
    inputs: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
) -> None:
    """Inputs lie at addresses that no kernel could read 16 bytes at; the outputs are the same."""
    room = [np.zeros(array.nbytes + 512, np.uint8) for array in inputs.values()]
    addresses = [-(-space.ctypes.data // 256) * 256 + 4 for space in room]
    for array, address in zip(inputs.values(), addresses, strict=True):
        ctypes.memmove(address, np.ascontiguousarray(array).ctypes.data, array.nbytes)
    given, found = (ctypes.c_uint64 * len(room))(*addresses), (ctypes.c_uint64 * len(expected))()
    assert library.net_submit(context, given, found, ctypes.c_void_p(1)) == 0
    assert library.driver_current() == ANOTHER
    for array, address in zip(expected.values(), found, strict=True):
        got = np.frombuffer(ctypes.string_at(address, array.nbytes), array.dtype)
        np.testing.assert_array_equal(got.reshape(array.shape), array)


@pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
def test_exported_source_runs_on_the_driver_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "stored_kernels", asking)
    network = loop_network()
    module = asd.compile(network, "cuda:h200", device="emulated")
    exported = module.export_library(tmp_path / "net")
    assert isinstance(exported, ExportedSource)
    library = build(exported, module, tmp_path)
    library.driver_current.restype = ctypes.c_void_p
    library.driver_set_current(ctypes.c_void_p(ANOTHER))
    inputs = module.random_inputs(3)
    outputs = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in module.outputs}
    given = (ctypes.c_void_p * len(inputs))(*(array.ctypes.data for array in inputs.values()))
    found = (ctypes.c_void_p * len(outputs))(*(array.ctypes.data for array in outputs.values()))
    context = ctypes.c_void_p()
    assert library.net_init(ctypes.byref(context), str(tmp_path).encode(), 0) == 0
    for _ in range(2):
        assert library.net_run(context, given, found) == 0
        assert library.driver_current() == ANOTHER
    for name, array in evaluate(network.graph, inputs).items():
        np.testing.assert_allclose(outputs[name], array, rtol=1e-5, atol=1e-6, err_msg=name)
    submit_from_anywhere(library, context, inputs, outputs)
    library.net_free(context)
    assert library.driver_alive() == 0 and library.driver_current() == ANOTHER
    for file in exported.files:
        file.unlink()
        assert library.net_init(ctypes.byref(context), str(tmp_path).encode(), 0) == -1
        assert library.driver_alive() == 0 and library.driver_current() == ANOTHER
        break


def test_the_manifest_names_all_files(tmp_path: Path) -> None:
    module = asd.compile(loop_network(), "cuda:h200", device="emulated")
    exported = module.export_library(tmp_path / "out" / "my net", "n")
    assert isinstance(exported, ExportedSource)
    manifest = json.loads(exported.manifest.read_text())
    files = {path.name for path in exported.manifest.parent.iterdir()}
    assert set(manifest["files"]) == files - {"n.json"}
    assert [spec["name"] for spec in manifest["inputs"]] == [s.name for s in module.inputs]
    assert manifest["arch"] == "sm_90" and manifest["kernels"]

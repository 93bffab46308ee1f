"""Kernels as files: what is written is read again, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codegen.cuda.kernel import CudaKernel, CudaSource, Launch, Resources
from codegen.cuda.kernel_files import StoredKernel, kernel_files, stored_kernels
from codegen.errors import ObjectFileError
from codegen.kernel import Argument
from sketch.target.gpu_targets import cuda_target

TARGET = cuda_target("h200")


def kernel() -> CudaKernel:
    arguments = (
        Argument("A", "float32", (4, 3), "input"),
        Argument("C", "float32", (), "output"),
    )
    launches = (
        Launch("k7_0", 2, 64, ("A", "sums"), ("const float*", "float*")),
        Launch("k7_1", 1, 32, ("sums", "C"), ("const float*", "float*"), 65536),
    )
    source = CudaSource("sum", "// ü\n", launches, arguments, (("sums", 8),))
    return CudaKernel(source, TARGET, b"cubin", (("k7_0", Resources(32, 0, 0, 0, 128)),))


def test_what_is_written_is_read() -> None:
    files = kernel_files(kernel(), 2e-6)
    assert set(files) == {"k7.cubin", "k7.cu", "k7.json"}
    assert stored_kernels(files, TARGET) == {"k7": StoredKernel(kernel(), 2e-6)}
    assert kernel().buffer_bytes == (48, 4, 8)
    assert stored_kernels({}, TARGET) == {}


def test_files_of_releases_whose_launches_asked_for_no_shared_memory() -> None:
    files = edited(lambda data: data["source"]["launches"][1].pop("shared_bytes"))
    launches = stored_kernels(files, TARGET)["k7"].kernel.source.launches
    assert [launch.shared_bytes for launch in launches] == [0, 0]


def edited(change: Any) -> dict[str, bytes]:
    files = kernel_files(kernel(), 2e-6)
    data = json.loads(files["k7.json"])
    change(data)
    return files | {"k7.json": json.dumps(data).encode()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.pop("source"), "has not the fields"),
        (lambda data: data.update(more=1), "has not the fields"),
        (lambda data: data.update(expected_s="long"), "is no <class 'float'>"),
        (lambda data: data.update(expected_s=float("nan")), "is no <class 'float'>"),
        (lambda data: data["source"].update(workspaces=[["sums"]]), "shorter"),
        (lambda data: data["source"].update(launches=3), "is no list"),
        (lambda data: data["source"].update(launches=[]), "launches nothing"),
        (lambda data: data["source"].update(workspaces=[]), "launch 0 is none"),
        (lambda data: data["source"].update(workspaces=[["sums", -8]]), "negative sizes"),
        (lambda data: data["source"].update(workspaces=[["A", 8]]), "equal names"),
        (lambda data: data["source"]["launches"][1].update(symbol="k7_0"), "launch 1 is none"),
        (lambda data: data["source"]["launches"][1].update(grid=0), "launch 1 is none"),
        (lambda data: data["source"]["launches"][0].update(block=2048), "launch 0 is none"),
        (lambda data: data["source"]["launches"][0].update(block=True), "is no <class 'int'>"),
        (lambda data: data["source"]["launches"][0].update(shared_bytes=-1), "launch 0 is none"),
        (lambda data: data["source"]["launches"][0].update(shared_bytes=1 << 20), "launch 0 is"),
        (lambda data: data["source"]["launches"][0].update(parameters=[]), "launch 0 is none"),
        (lambda data: data["source"]["arguments"][0].update(scope="shared"), "is no"),
    ],
)
def test_a_damaged_description(change: Any, message: str) -> None:
    with pytest.raises(ObjectFileError, match=message):
        stored_kernels(edited(change), TARGET)


def test_files_that_make_no_kernel() -> None:
    files = kernel_files(kernel(), 0.0)
    for name in files:
        some = {other: data for other, data in files.items() if other != name}
        with pytest.raises(ObjectFileError, match="make no kernel"):
            stored_kernels(some, TARGET)
    with pytest.raises(ObjectFileError, match="damaged"):
        stored_kernels(files | {"k7.json": b"{"}, TARGET)

"""What a machine lacks before it can run kernels: one sentence each that says what to change."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from codegen.gpu import missing
from codegen.gpu.driver import NEWER_DRIVER
from sketch.target.gpu_targets import cuda_target


class Library:
    """The driver's library with these answers; ``devices``: how many it counts."""

    def __init__(self, init: int = 0, devices: int = 1, version: int = 13_000) -> None:
        self._init, self._devices, self._version = init, devices, version

    def cuInit(self, flags: int) -> int:
        assert flags == 0
        return self._init

    def cuDeviceGetCount(self, count: Any) -> int:
        assert not self._init, "asked a driver that has not started"
        ctypes.cast(count, ctypes.POINTER(ctypes.c_int))[0] = self._devices
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:
        ctypes.cast(version, ctypes.POINTER(ctypes.c_int))[0] = self._version
        return 0


def install(monkeypatch: pytest.MonkeyPatch, library: Library | None) -> None:
    def load(_: str) -> Library:
        if library is None:
            raise OSError("libcuda.so.1: cannot open shared object file")
        return library

    monkeypatch.setattr(missing.ctypes, "CDLL", load)


@pytest.mark.parametrize(
    ("library", "what", "remedy"),
    [
        (None, "no CUDA driver", NEWER_DRIVER),
        (Library(init=803), "does not start (error 803)", NEWER_DRIVER),
        # so the driver answers where CUDA_VISIBLE_DEVICES is empty
        (Library(init=100), "finds no device", "CUDA_VISIBLE_DEVICES"),
        (Library(devices=0), "finds no device", "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_one_sentence_says_what_is_missing_and_what_to_change(
    library: Library | None, what: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, library)
    said = missing.missing_gpu()
    assert said is not None and said == missing.missing_device(cuda_target("h200"))
    assert what in said and remedy in said


def test_an_old_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Library(version=12_040))
    monkeypatch.setattr(missing, "missing_compiler", lambda arch: None)
    monkeypatch.setattr(missing, "release_of_compiler", lambda: (13, 0))
    said = missing.missing_device(cuda_target("h200"))
    assert said is not None and "CUDA 12.4, the code is of 13.0" in said and NEWER_DRIVER in said
    install(monkeypatch, Library())
    assert missing.missing_device(cuda_target("h200")) is None

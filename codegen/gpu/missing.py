"""What is missing before kernels of a GPU target can run here, each as one sentence."""

from __future__ import annotations

import ctypes
from typing import Final

from codegen.cuda.nvrtc import missing_compiler, release_of_compiler
from codegen.gpu.driver import NEWER_DRIVER
from codegen.gpu.emulation.library import missing_emulator
from sketch.target.target import Target

_DRIVER: Final = "libcuda.so.1"
# The first driver of a major release of CUDA runs the code of all its minor ones.
_RELEASE: Final = 1000
_NO_DEVICE: Final = 100  # CUDA_ERROR_NO_DEVICE: so cuInit where CUDA_VISIBLE_DEVICES hides all
_SHOW: Final = "look at CUDA_VISIBLE_DEVICES, and start a container with its GPUs"


def missing_device(target: Target) -> str | None:
    """Why no kernel of a GPU target can run here, as a sentence; None where it can."""
    if target.card.emulated:
        return missing_emulator()
    return missing_gpu() or missing_compiler(target.arch) or _old_driver()


def missing_gpu() -> str | None:
    """Why no kernel at all can run on a GPU here, or None where one can.

    Asks the driver itself, without the packages that need it: a first failing call of theirs can
    make the next one hang.
    """
    try:
        driver = ctypes.CDLL(_DRIVER)
    except OSError as error:
        return f"no CUDA driver ({error}): {NEWER_DRIVER}"
    status = driver.cuInit(0)
    if status not in (0, _NO_DEVICE):
        return f"the CUDA driver does not start (error {status}): {NEWER_DRIVER}"
    count = ctypes.c_int(0)
    if status or driver.cuDeviceGetCount(ctypes.byref(count)) or count.value < 1:
        return f"the CUDA driver finds no device: {_SHOW}"
    try:
        from cuda.bindings import driver as _  # noqa: F401
    except ImportError as error:
        return f'cuda.bindings is not installed ({error}): pip install "autosched[cuda]"'
    return None


def _old_driver() -> str | None:
    """Whether the driver is older than the compiler: it would not load its code."""
    version = ctypes.c_int(0)
    ctypes.CDLL(_DRIVER).cuDriverGetVersion(ctypes.byref(version))
    major, minor = release_of_compiler()
    if version.value // _RELEASE >= major:
        return None
    have = f"{version.value // _RELEASE}.{version.value % _RELEASE // 10}"
    return f"the CUDA driver knows CUDA {have}, the code is of {major}.{minor}: {NEWER_DRIVER}"

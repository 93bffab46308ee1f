"""Targets by the names that users give: ``cpu``, ``cpu-avx2``, ``cuda:sm_90``, ``cuda:h200``."""

from __future__ import annotations

from typing import Final

from codegen.gpu.host import gpu_here
from codegen.gpu.missing import missing_gpu
from codegen.host import cpu_target
from sketch.errors import TargetError
from sketch.target.gpu_targets import DeviceName, cuda_target, on_device
from sketch.target.target import Target

_CUDA: Final = "cuda"


def named_target(
    name: str,
    threads: int | None = None,
    arch: str | None = None,
    device: DeviceName | None = None,
) -> Target:
    """The target of a name.

    Args:
        name: ``cpu`` is this machine; ``cpu-avx512``, ``cpu-avx2``, ``cpu-sse2``, ``cpu-neon`` and
            ``cpu-neoverse-v1`` are instruction sets; ``cuda`` is the GPU of this machine,
            ``cuda:sm_90`` or ``cuda:h200`` an architecture or a card.
        threads: worker threads of a CPU; None: one for each CPU that this process may use.
        arch: of a GPU, instead of what follows the colon.
        device: "emulated": this machine's CPU stands in for the GPU; "emulated-checked": the same,
            and every access to memory is checked; None: the machine itself.

    Raises:
        TargetError: an unknown name or device, threads of a GPU, an architecture or a device of a
            CPU, or ``cuda`` alone where there is no GPU.
    """
    target = _named(name, threads, arch)
    return target if device is None else on_device(target, device)


def _named(name: str, threads: int | None, arch: str | None) -> Target:
    kind, colon, card = name.partition(":")
    if kind != _CUDA:
        if arch is not None:
            raise TargetError(
                f"target {name!r} has no arch {arch!r}", hint='arch is for "cuda" targets'
            )
        return cpu_target(name, threads)
    if threads is not None:
        raise TargetError(f"target {name!r} takes no threads", hint="they are for CPU targets")
    if colon and arch is not None:
        raise TargetError(f"target {name!r} and arch {arch!r}", hint="give one of them")
    wanted = card if colon else arch
    return _gpu_here() if wanted is None else cuda_target(wanted)


def _gpu_here() -> Target:
    reason = missing_gpu()
    if reason is not None:
        raise TargetError(
            f"this machine has no GPU to take the numbers from: {reason}",
            hint='name one: "cuda:sm_90" or "cuda:h200"',
        )
    return gpu_here()

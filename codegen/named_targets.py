"""Targets by the names that users give: ``cpu``, ``cpu-avx2``, ``cuda:sm_90``, ``cuda:h200``."""

from __future__ import annotations

from typing import Final, Literal, get_args

from codegen.cuda.launch import host_arch, missing_gpu
from codegen.host import cpu_target
from sketch.errors import TargetError
from sketch.target.gpu_targets import cuda_target, emulated
from sketch.target.target import Target

DeviceName = Literal["emulated"]
"""What runs the kernels of a GPU target in the place of a GPU."""

DEVICES: Final = get_args(DeviceName)
_CUDA: Final = "cuda"


def named_target(
    name: str,
    threads: int | None = None,
    arch: str | None = None,
    device: DeviceName | None = None,
) -> Target:
    """The target of a name.

    Args:
        name: ``cpu`` is this machine; ``cpu-avx512``, ``cpu-avx2``, ``cpu-sse2``, ``cpu-neon`` are
            instruction sets; ``cuda`` is the GPU of this machine, ``cuda:sm_90`` or ``cuda:h200``
            an architecture or a card.
        threads: worker threads of a CPU; None: one for each CPU that this process may use.
        arch: of a GPU, instead of what follows the colon.
        device: "emulated": this machine's CPU stands in for the GPU; None: the machine itself.

    Raises:
        TargetError: an unknown name or device, threads of a GPU, an architecture or a device of a
            CPU, or ``cuda`` alone where there is no GPU.
    """
    target = _named(name, threads, arch)
    return target if device is None else on_device(target, device)


def on_device(target: Target, device: DeviceName) -> Target:
    """A GPU target whose kernels ``device`` runs; raises TargetError on an unknown one or a CPU."""
    if device not in DEVICES:
        raise TargetError(f"unknown device {device!r}", hint=f"known: {', '.join(DEVICES)}")
    return emulated(target)


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
    return cuda_target(_arch_here() if wanted is None else wanted)


def _arch_here() -> str:
    reason = missing_gpu()
    if reason is not None:
        raise TargetError(
            f"this machine has no GPU to take the architecture from: {reason}",
            hint='name one: "cuda:sm_90" or "cuda:h200"',
        )
    return host_arch()

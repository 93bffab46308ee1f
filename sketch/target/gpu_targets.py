"""GPU targets by architecture or by card: no device is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from sketch.errors import TargetError, suggestion
from sketch.target.gpu_card import GpuCard
from sketch.target.target import Target

DeviceName = Literal["emulated", "emulated-checked"]
"""What runs kernels of a GPU target in the place of a GPU; checked: with its accesses to memory."""

DEVICES: Final = get_args(DeviceName)
_KB: Final = 1024
_MB: Final = 1024**2
_GHZ: Final = 1e9
_GB: Final = 10**9


@dataclass(frozen=True, slots=True)
class _Model:
    """One card: an architecture with so many processors."""

    arch: str
    processors: int
    ghz: float
    l2_mb: int
    memory_gb: int
    gb_per_s: int
    half_macs: int
    tf32_macs: int
    int8_macs: int


# By compute capability: fp32 lanes, shared KB of a block and of a processor, threads and blocks of
# a processor (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
_PROCESSORS: Final[Mapping[str, tuple[int, int, int, int, int]]] = {
    "sm_75": (64, 64, 64, 1024, 16),
    "sm_80": (64, 163, 164, 2048, 32),
    "sm_86": (128, 99, 100, 1536, 16),
    "sm_89": (128, 99, 100, 1536, 24),
    "sm_90": (128, 227, 228, 2048, 32),
    "sm_100": (128, 227, 228, 2048, 32),
    "sm_120": (128, 99, 100, 1536, 24),
}
# Processors, boost clock, L2, memory, bandwidth, tensor units: NVIDIA's data sheets.
_MODELS: Final[Mapping[str, _Model]] = {
    "t4": _Model("sm_75", 40, 1.59, 4, 16, 320, 512, 0, 1024),
    "a100": _Model("sm_80", 108, 1.41, 40, 80, 2039, 1024, 512, 2048),
    "a10": _Model("sm_86", 72, 1.695, 6, 24, 600, 512, 256, 1024),
    "rtx3090": _Model("sm_86", 82, 1.695, 6, 24, 936, 256, 128, 1024),
    "l4": _Model("sm_89", 58, 2.04, 48, 24, 300, 512, 256, 1024),
    "l40": _Model("sm_89", 142, 2.49, 96, 48, 864, 256, 128, 512),
    "l40s": _Model("sm_89", 142, 2.52, 96, 48, 864, 512, 256, 1024),
    "rtx4090": _Model("sm_89", 128, 2.52, 72, 24, 1008, 256, 128, 1024),
    "h100": _Model("sm_90", 132, 1.98, 50, 80, 3352, 2048, 1024, 4096),
    "h200": _Model("sm_90", 132, 1.98, 60, 141, 4800, 2048, 1024, 4096),
    "b200": _Model("sm_100", 148, 1.98, 126, 180, 8000, 4096, 2048, 8192),
    "rtx5090": _Model("sm_120", 170, 2.41, 96, 32, 1792, 256, 128, 1024),
}
# What an architecture in general is taken for: the sizes that were always used, a card's rates.
_USUAL: Final[Mapping[str, tuple[str, int, int]]] = {
    "sm_75": ("t4", 40, 4),
    "sm_80": ("a100", 108, 40),
    "sm_86": ("rtx3090", 84, 6),
    "sm_89": ("rtx4090", 128, 72),
    "sm_90": ("h100", 132, 50),
    "sm_100": ("b200", 148, 126),
    "sm_120": ("rtx5090", 170, 96),
}
ARCHS: Final = tuple(_PROCESSORS)
"""Architectures that there is code for."""
# The same architectures with the instructions of their tensor units: what uses these is compiled
# for the name with the letter.
_WITH_UNITS: Final = {"sm_90a": "sm_90", "sm_100a": "sm_100", "sm_120a": "sm_120"}
# Products that the warps of an architecture compute on its tensor units: PTX ISA, "mma".
_OLDEST_PRODUCTS: Final = frozenset(("mma-f16",))
_PRODUCTS: Final = _OLDEST_PRODUCTS | {"mma-bf16", "mma-tf32", "mma-s8", "mma-long"}
# Those of four warps, which only this architecture has (PTX ISA, "wgmma"), and the share of their
# rate that products of single warps reach there.
_GROUPS: Final = ("sm_90",)
_WARP_SHARE: Final = 0.62
# Architectures without PTX's cp.async, which came with sm_80.
_SYNCHRONOUS: Final = ("sm_75",)
CARDS: Final = tuple(_MODELS)
"""Names of well-known cards."""


def cuda_target(name: str = "sm_90") -> Target:
    """The target of an NVIDIA architecture, ``sm_90``, or of a card, ``h200``.

    ``sm_90a`` is ``sm_90``.

    Raises:
        TargetError: it is unknown, or too old for the compiler.
    """
    name = _WITH_UNITS.get(name.lower(), name.lower())
    if name in _MODELS:
        return _target(name, _MODELS[name])
    if name not in _USUAL:
        hint = suggestion(name, (*ARCHS, *CARDS))
        raise TargetError(f"unknown GPU architecture or card {name!r}", hint=hint)
    card, processors, l2_mb = _USUAL[name]
    return _target("", replace(_MODELS[card], processors=processors, l2_mb=l2_mb))


def on_device(target: Target, device: DeviceName) -> Target:
    """A GPU target whose kernels ``device`` runs; raises TargetError on an unknown one or a CPU."""
    if device not in DEVICES:
        raise TargetError(f"unknown device {device!r}", hint=f"known: {', '.join(DEVICES)}")
    return emulated(target, checked=device == "emulated-checked")


def copies_ahead(target: Target) -> bool:
    """Whether threads need not wait for what they copy into shared memory."""
    return target.arch not in _SYNCHRONOUS


def instructions_of(target: Target) -> frozenset[str]:
    """The instructions that a target has beyond the usual ones: a CPU's features, the products of
    the tensor units of a GPU's architecture.
    """
    if target.arch not in _PROCESSORS:
        return target.has
    products = _OLDEST_PRODUCTS if target.arch in _SYNCHRONOUS else _PRODUCTS
    return target.has | products | ({"wgmma"} if target.arch in _GROUPS else set())


def emulated(target: Target, checked: bool = False) -> Target:
    """The same GPU as an emulated device: its kernels run on this machine's CPU.

    ``checked``: with every access to memory looked at, some hundred times slower.

    Raises:
        TargetError: it is a CPU.
    """
    if not target.card.hertz:  # no clock to estimate times by
        raise TargetError(
            f"a {target.kind} target is not emulated", hint='"emulated" is for "cuda" targets'
        )
    return replace(target, card=replace(target.card, emulated=True, checked=checked))


def _target(name: str, model: _Model) -> Target:
    """A block may declare 48 KB of shared memory, and ask for more at launch; a thread can address
    255 registers.
    """
    lanes, block_kb, processor_kb, threads, blocks = _PROCESSORS[model.arch]
    return Target(
        kind="cuda",
        arch=model.arch,
        threads=model.processors,
        vector_bytes=16,
        registers=255,
        fma_accumulators=4,
        l1_bytes=block_kb * _KB,
        l2_bytes=model.l2_mb * _MB,
        l3_bytes=0,
        cache_line_bytes=128,
        instruction_budget=4096,
        shared_memory_bytes=48 * _KB,
        threads_per_block=1024,
        warp_size=32,
        registers_per_block=65536,
        max_vthreads=8,
        card=GpuCard(
            name=name,
            hertz=model.ghz * _GHZ,
            fma_lanes=lanes,
            shared_block_bytes=block_kb * _KB,
            shared_processor_bytes=processor_kb * _KB,
            registers_per_processor=65536,
            threads_per_processor=threads,
            blocks_per_processor=blocks,
            memory_bytes=model.memory_gb * _GB,
            memory_bytes_per_s=float(model.gb_per_s * _GB),
            half_macs=model.half_macs,
            tf32_macs=model.tf32_macs,
            int8_macs=model.int8_macs,
            warp_share=_WARP_SHARE if model.arch in _GROUPS else 1.0,
        ),
    )

"""The GPU of this machine as a target."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from codegen.gpu.driver import Driver
from codegen.gpu.real import arch_of
from sketch.target.gpu_targets import ARCHS, CARDS, cuda_target
from sketch.target.target import Target

# Clocks are given in kHz; memory moves data at both edges of its clock, and its bus is in bits.
_KHZ: Final = 1e3
_EDGES: Final = 2
_BYTE_BITS: Final = 8
_MAKERS: Final = ("nvidia", "geforce", "tesla", "graphics", "device")


def gpu_here() -> Target:
    """The target of the first GPU; there must be one, see ``missing_gpu``."""
    from cuda.bindings import driver as bindings

    return device_target(Driver(bindings))


def device_target(driver: Driver) -> Target:
    """The target of a GPU: a well-known card's, or else what the driver says of it.

    A card of a well-known name with another number of processors, a part of one, say, is not that
    card: its name says how many it has.

    """
    arch, processors = arch_of(driver), driver.attribute("MULTIPROCESSOR_COUNT")
    name = card_name(driver.name)
    if name in CARDS and cuda_target(name).threads == processors:
        return cuda_target(name)
    usual = cuda_target(arch if arch in ARCHS else _nearest(arch))
    bandwidth = (
        _EDGES * driver.attribute("MEMORY_CLOCK_RATE") * _KHZ
        * driver.attribute("GLOBAL_MEMORY_BUS_WIDTH") / _BYTE_BITS
    )  # fmt: skip
    card = replace(
        usual.card,
        name=f"{name}-{processors}",
        hertz=driver.attribute("CLOCK_RATE") * _KHZ,
        shared_block_bytes=driver.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        shared_processor_bytes=driver.attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        registers_per_processor=driver.attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        threads_per_processor=driver.attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
        blocks_per_processor=driver.attribute("MAX_BLOCKS_PER_MULTIPROCESSOR"),
        memory_bytes=int(driver.call("cuDeviceTotalMem", driver.device)),
        memory_bytes_per_s=bandwidth or usual.card.memory_bytes_per_s,
    )
    return replace(
        usual,
        arch=arch,
        threads=processors,
        l1_bytes=card.shared_block_bytes,
        l2_bytes=driver.attribute("L2_CACHE_SIZE"),
        card=card,
    )


def card_name(name: str) -> str:
    """``NVIDIA GeForce RTX 4090`` -> ``rtx4090``, ``NVIDIA H100 80GB HBM3`` -> ``h100``."""
    words = [word for word in re.split(r"[\s-]+", name.lower()) if word not in _MAKERS]
    joined = "".join(words)
    known = [card for card in CARDS if joined.startswith(card)]
    return max(known, key=len) if known else (joined or "gpu")


def _nearest(arch: str) -> str:
    """The newest known architecture of the same generation, or of those before it."""
    number = int(arch.removeprefix("sm_"))
    older = [known for known in ARCHS if int(known.removeprefix("sm_")) <= number]
    return older[-1] if older else arch

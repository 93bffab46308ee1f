"""Cubins of CUDA programs, each compiled once for a user: kept on disk with their resources."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from codegen.cuda.kernel import CudaKernel, CudaSource, Resources
from codegen.cuda.nvrtc import compile_source, compiler_key, with_units
from codegen.file_cache import FileCache, user_cache

CUBINS: Final = "cubin"
"""The name of the cache of cubins."""

SymbolResources = tuple[tuple[str, Resources], ...]


def compiled(
    source: CudaSource, arch: str, cache: FileCache | None = None
) -> tuple[bytes, SymbolResources]:
    """As ``compile_source``, from a file where the same text was compiled before.

    Args:
        source: the program.
        arch: ``sm_90``.
        cache: where cubins are kept; None: the user's.

    Raises:
        TargetError: NVRTC is not installed, does not know the architecture, or that has no such
            tensor units.
        CodegenError: NVRTC refuses the program.
    """
    cache = cache or user_cache(CUBINS)
    text = "\0".join((compiler_key(with_units(source, arch)), source.text))
    name = f"{hashlib.sha256(text.encode()).hexdigest()}.cubin"
    with suppress(
        OSError, ValueError, TypeError, KeyError
    ):  # not there, or damaged: it is made again
        return _read(cache.folder / name)
    cubin, resources = compile_source(source, arch)
    with suppress(OSError):  # a full disk: the next process compiles it once more
        (cache.folder / name).unlink(missing_ok=True)
        cache.file(name, lambda path: path.write_bytes(_entry(cubin, resources)))
    return cubin, resources


def recompiled(kernel: CudaKernel, arch: str) -> CudaKernel:
    """The kernel for another architecture, from its text; errors as of ``compiled``."""
    return CudaKernel(
        kernel.source, replace(kernel.target, arch=arch), *compiled(kernel.source, arch)
    )


def _entry(cubin: bytes, resources: SymbolResources) -> bytes:
    """A line with the resources and the cubin's hash, then the cubin."""
    about = {
        "sha256": hashlib.sha256(cubin).hexdigest(),
        "resources": [[symbol, asdict(used)] for symbol, used in resources],
    }
    return json.dumps(about).encode() + b"\n" + cubin


def _read(path: Path) -> tuple[bytes, SymbolResources]:
    line, _, cubin = path.read_bytes().partition(b"\n")
    about: dict[str, Any] = json.loads(line)
    if about["sha256"] != hashlib.sha256(cubin).hexdigest():
        raise ValueError("damaged")
    return cubin, tuple((symbol, Resources(**used)) for symbol, used in about["resources"])

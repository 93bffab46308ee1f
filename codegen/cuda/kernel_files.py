"""A CUDA kernel as files: ``NAME.cubin``, ``NAME.cu`` and ``NAME.json``, which says how to launch.

The text is kept, so that other architectures and the emulated device can make their own code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from codegen.cuda.kernel import CudaKernel, CudaSource, Resources
from codegen.errors import ObjectFileError
from sketch.target.target import Target

CODE, TEXT, LAUNCHES = ".cubin", ".cu", ".json"
SUFFIXES: Final = (CODE, TEXT, LAUNCHES)


@dataclass(frozen=True, slots=True)
class KernelFile:
    """What the JSON file of a kernel says.

    Attributes:
        source: without its text.
        resources: by symbol of a launch.
        expected_s: seconds that one run is thought to take.
    """

    source: CudaSource
    resources: tuple[tuple[str, Resources], ...]
    expected_s: float


@dataclass(frozen=True, slots=True)
class StoredKernel:
    """A kernel of files; ``expected_s``: seconds that one run is thought to take."""

    kernel: CudaKernel
    expected_s: float


def kernel_files(kernel: CudaKernel, expected_s: float) -> dict[str, bytes]:
    """The files by name."""
    about = KernelFile(replace(kernel.source, text=""), kernel.resources, expected_s)
    return {
        f"{kernel.symbol}{CODE}": kernel.cubin,
        f"{kernel.symbol}{TEXT}": kernel.source.text.encode(),
        f"{kernel.symbol}{LAUNCHES}": json.dumps(asdict(about), indent=1).encode(),
    }


def stored_kernels(files: Mapping[str, bytes], target: Target) -> dict[str, StoredKernel]:
    """The kernels of files, by symbol.

    Raises:
        ObjectFileError: a file is missing, not of a kernel, or damaged.
    """
    symbols = sorted(name.removesuffix(CODE) for name in files if name.endswith(CODE))
    wanted = {f"{symbol}{suffix}" for symbol in symbols for suffix in SUFFIXES}
    if wanted != set(files):
        odd = ", ".join(sorted(wanted ^ set(files)))
        raise ObjectFileError(f"files that make no kernel: {odd[:200]}", "CUDA code")
    return {symbol: _stored(files, symbol, target) for symbol in symbols}


def _stored(files: Mapping[str, bytes], symbol: str, target: Target) -> StoredKernel:
    where = f"kernel {symbol}"
    try:
        about: KernelFile = _value(KernelFile, json.loads(files[f"{symbol}{LAUNCHES}"]))
        text = files[f"{symbol}{TEXT}"].decode()
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ObjectFileError(f"its description is damaged: {str(error)[:200]}", where) from error
    source = replace(about.source, text=text)
    _check(source, symbol, target, where)
    kernel = CudaKernel(source, target, files[f"{symbol}{CODE}"], about.resources)
    return StoredKernel(kernel, about.expected_s)


def _check(source: CudaSource, symbol: str, target: Target, where: str) -> None:
    """That its launches are launches of this kernel, on buffers that it has."""
    if not source.launches:
        raise ObjectFileError("it launches nothing", where)
    buffers = [argument.name for argument in source.arguments]
    buffers += [name for name, _ in source.workspaces]
    if len(set(buffers)) < len(buffers) or any(size < 0 for _, size in source.workspaces):
        raise ObjectFileError("its buffers have equal names or negative sizes", where)
    for number, launch in enumerate(source.launches):
        fits = launch.grid > 0 and 0 < launch.block <= target.threads_per_block
        fits = fits and 0 <= launch.shared_bytes <= target.most_shared_bytes
        known = set(launch.buffers) <= set(buffers) and len(launch.parameters) == len(
            launch.buffers
        )
        if launch.symbol != f"{symbol}_{number}" or not fits or not known:
            raise ObjectFileError(f"launch {number} is none of this kernel", where)


def _value(kind: Any, value: Any) -> Any:
    """``value``, from JSON, as a value of a type; raises TypeError where it is none."""
    origin, parts = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        names = [item.name for item in fields(kind)]
        needed = {item.name for item in fields(kind) if item.default is MISSING}
        if not isinstance(value, dict) or not needed <= set(value) <= set(names):
            raise TypeError(f"{str(value)[:80]!r} has not the fields {', '.join(names)}")
        return kind(**{name: _value(hints[name], value[name]) for name in value})  # type: ignore[operator]
    if origin is tuple:
        return _items(parts, value)
    if origin is Literal:
        kind, matches = parts[0], value in parts
    elif origin in (Union, UnionType):
        return None if value is None and NoneType in parts else _value(parts[0], value)
    else:
        matches = type(value) is kind or (kind is float and type(value) is int)
    if not matches or (isinstance(value, float) and not math.isfinite(value)):
        raise TypeError(f"{str(value)[:80]!r} is no {kind}")
    return value


def _items(parts: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{str(value)[:80]!r} is no list")
    kinds = parts[:1] * len(value) if parts[-1] is Ellipsis else parts
    return tuple(_value(kind, item) for kind, item in zip(kinds, value, strict=True))

"""Tensors of torch as arrays of NumPy, and what tells one from another."""

from __future__ import annotations

import hashlib
from ctypes import string_at
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.errors import ModelImportError
from sketch.lang.dtypes import SUPPORTED

_SEEN_BYTES: Final = 32
_PAIRS: Final = "take torch.view_as_real of it, which torch.view_as_complex makes complex again"
_HOST_ONLY: Final = ("uint16", "uint32", "uint64")


def is_plain(value: Any) -> bool:
    """Whether a NumPy array can stand for the value (numbers stand for themselves)."""
    import torch

    if not isinstance(value, torch.Tensor):
        return isinstance(value, int | float | bool)
    return value.device.type == "cpu" and value.layout == torch.strided


def check_dtype(tensor: Any, name: str) -> None:
    """Raise ModelImportError if no network has inputs of the tensor's type."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in SUPPORTED and dtype not in _HOST_ONLY:
        raise ModelImportError(
            f"input {name!r} is of type {dtype}, which networks do not take",
            hint=_PAIRS if tensor.dtype.is_complex else "",
        )


def check_result(tensor: Any, name: str) -> None:
    """Raise ModelImportError if a result is complex: networks return real numbers alone."""
    if tensor.dtype.is_complex:
        dtype = str(tensor.dtype).removeprefix("torch.")
        raise ModelImportError(f"result {name!r} is of type {dtype}, which networks do not return")


def is_tracked(value: Any) -> bool:
    """Whether torch counts what is written into the value: not in inference mode."""
    return not (hasattr(value, "is_inference") and value.is_inference())


def signature_of(value: Any) -> Any:
    """Shape and dtype of a tensor; a number itself."""
    return (tuple(value.shape), value.dtype) if hasattr(value, "dtype") else value


def version_of(value: Any) -> Any:
    """Changes whenever the tensor's elements are written or replaced.

    ``tensor.data`` and NumPy write past torch's counter: what they write into the first or the last
    elements is seen.  A tensor that takes the place of another is told from it as long as somebody
    keeps the ``memory_of`` that one: allocators give out freed addresses again.
    """
    if not hasattr(value, "_version"):
        return value
    storage = value.untyped_storage()._cdata
    edges = (string_at(start, size) for start, size in edges_of(value))
    return storage, value.data_ptr(), value._version, *edges


def edges_of(tensor: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """Address and bytes of the first elements, and of the last ones."""
    steps = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    covered = (1 + steps) * tensor.element_size() if tensor.numel() else 0
    start, size = tensor.data_ptr(), min(covered, _SEEN_BYTES)
    return (start, size), (start + covered - size, size)


def memory_of(value: Any) -> Any:
    """Keeps the identity of a tensor's memory, not the memory, from being given to another."""
    from torch.multiprocessing.reductions import StorageWeakRef

    return StorageWeakRef(value.untyped_storage()) if hasattr(value, "_version") else None


def digest_of(tensor: Any) -> str:
    """SHA-256 of the elements' bytes, in row-major order."""
    import torch

    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return hashlib.sha256(flat.view(torch.uint8).numpy()).hexdigest()


def to_numpy(tensor: Any) -> NDArray[Any]:
    """A tensor's elements, without a copy where it is contiguous.

    Raises:
        ModelImportError: NumPy has no such type.
    """
    import torch

    dense = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if dense.dtype == torch.bfloat16:
        import ml_dtypes

        return dense.view(torch.int16).numpy().view(ml_dtypes.bfloat16)  # type: ignore[no-any-return]
    try:
        return dense.numpy()  # type: ignore[no-any-return]
    except TypeError as error:
        raise ModelImportError(f"NumPy has no arrays of {dense.dtype}") from error


def to_torch(array: NDArray[Any]) -> Any:
    """A tensor of the array's own memory.

    Raises:
        ModelImportError: torch does not take arrays of such a type.
    """
    import torch

    if str(array.dtype) == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    try:
        tensor = torch.from_numpy(array)
    except TypeError as error:
        raise ModelImportError(f"torch takes no arrays of {array.dtype}") from error
    return tensor if array.size else tensor.new_empty(array.shape)  # with strides other than 0

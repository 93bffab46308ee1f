"""Tensors of torch as arrays of NumPy, and what tells one from another."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_plain(value: Any) -> bool:
    """Whether a NumPy array can stand for the value (numbers stand for themselves)."""
    import torch

    if not isinstance(value, torch.Tensor):
        return isinstance(value, int | float | bool)
    return value.device.type == "cpu" and value.layout == torch.strided and not value.is_inference()


def signature_of(value: Any) -> Any:
    """Shape and dtype of a tensor; a number itself."""
    return (tuple(value.shape), value.dtype) if hasattr(value, "dtype") else value


def version_of(value: Any) -> Any:
    """Changes whenever the tensor's elements are written or replaced."""
    return (value.data_ptr(), value._version) if hasattr(value, "_version") else value


def digest_of(tensor: Any) -> str:
    """SHA-256 of the elements' bytes, in row-major order."""
    import torch

    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return hashlib.sha256(flat.view(torch.uint8).numpy()).hexdigest()


def to_numpy(tensor: Any) -> NDArray[Any]:
    """A tensor's elements, without a copy where it is contiguous."""
    import torch

    dense = tensor.detach().contiguous()
    if dense.dtype == torch.bfloat16:
        import ml_dtypes

        return dense.view(torch.int16).numpy().view(ml_dtypes.bfloat16)  # type: ignore[no-any-return]
    return dense.numpy()  # type: ignore[no-any-return]


def to_torch(array: NDArray[Any]) -> Any:
    """A tensor of the array's own memory."""
    import torch

    if str(array.dtype) == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)

"""Tells at once whether tensors hold what they held: a network has hundreds of constants."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_char
from typing import Any

from autosched.torch_frontend.tensors import edges_of, memory_of


class ConstantsWatch:
    """What ``version_of`` says of each tensor, asked of all of them together.

    Numbers among the tensors are reported as changes: whoever asks then looks at each one.
    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._blind = not all(hasattr(tensor, "_version") for tensor in tensors)
        # Until the watch ends no other memory has the name of one of these.  Weak references to the
        # tensors would do, too, but torch.utils.swap_tensors refuses tensors that have any.
        self._memories = list(map(memory_of, tensors))
        if self._blind:
            return
        self._ids = list(map(id, tensors))
        self._places = _places(tensors)
        # Memory that is read only after it turned out to be the tensors' own still.
        edges = [edge for tensor in tensors for edge in edges_of(tensor) if edge[1]]
        self._edges = [(c_char * size).from_address(start) for start, size in edges]
        self._seen = b"".join(self._edges)

    def holds(self, tensors: Sequence[Any]) -> bool:
        """Whether these are the same tensors, and nobody has written into them."""
        if self._blind or list(map(id, tensors)) != self._ids:
            return False
        return _places(tensors) == self._places and b"".join(self._edges) == self._seen


def _places(tensors: Sequence[Any]) -> tuple[list[int], list[int], list[int]]:
    return (
        [tensor.data_ptr() for tensor in tensors],
        [tensor._version for tensor in tensors],
        [tensor.untyped_storage()._cdata for tensor in tensors],
    )

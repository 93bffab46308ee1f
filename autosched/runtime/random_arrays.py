"""Random arrays for the inputs of a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.errors import InputError
from autosched.runtime.program import TensorSpec
from autosched.system.element_types import element_type
from autosched.system.limits import check_whole
from autosched.system.memory_limit import room_for

_DRAWN_BYTES: Final = 8  # an element as the generator draws it, before its dtype is changed


def random_arrays(specs: Sequence[TensorSpec], seed: int = 0) -> dict[str, NDArray[Any]]:
    """Standard-normal floats, small integers, random booleans and digits, by name.

    Raises:
        InputError: ``seed`` is none.
        OutOfMemoryError: an array does not fit the memory of this machine.
    """
    check_whole("seed", seed, 0, InputError)
    rng = np.random.default_rng(seed)
    return {spec.name: _random(spec, rng) for spec in specs}


def _random(spec: TensorSpec, rng: np.random.Generator) -> NDArray[Any]:
    dtype = element_type(spec.dtype)
    size_bytes = spec.size * (dtype.itemsize + _DRAWN_BYTES)
    with room_for(f"random values for input {spec}", size_bytes, "give arrays of your own"):
        if dtype.kind == "O":
            return rng.integers(0, 8, spec.shape).astype(str).astype(object)
        if dtype.kind in "iub":
            high = 2 if dtype.kind == "b" else 8
            return rng.integers(0, high, spec.shape).astype(dtype)
        return rng.standard_normal(spec.shape).astype(dtype)

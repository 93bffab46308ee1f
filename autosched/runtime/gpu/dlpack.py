"""DLPack's structures, so that arrays on a device are handed over without a copy.

The layout is that of version 0 of the standard, which all libraries read.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

CPU, CUDA = 1, 2  # kinds of devices
_CODES: Final = {"i": 0, "u": 1, "f": 2, "b": 6}
_BFLOAT: Final = 4
_NAME: Final = b"dltensor"
_USED_NAME: Final = b"used_dltensor"


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("device_number", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    pass


_DELETER: Final = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER))

_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_DESTRUCTOR: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_inside = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def capsule(
    address: int, shape: tuple[int, ...], dtype: str, device: tuple[int, int], owner: Any
) -> Any:
    """A capsule that lends dense memory.

    Args:
        address: of the first byte.
        shape: of the array.
        dtype: of its elements.
        device: DLPack's kind and number.
        owner: lives until the borrower is through with it.
    """
    holder = _Lent(address, shape, dtype, device, owner)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder))
    return _new(ctypes.addressof(holder.managed), _NAME, ctypes.cast(_destroy, ctypes.c_void_p))


class _Lent:
    """What has to live as long as a borrower."""

    def __init__(
        self, address: int, shape: tuple[int, ...], dtype: str, device: tuple[int, int], owner: Any
    ) -> None:
        count = len(shape)
        self.owner = owner
        self.shape = (ctypes.c_int64 * max(1, count))(*shape)
        code, bits = _type_of(dtype)
        tensor = _Tensor(address, *device, count, code, bits, 1, self.shape, None, 0)
        self.managed = _Managed(tensor, id(self), _let_go)


@_DELETER
def _let_go(managed: Any) -> None:
    holder = ctypes.cast(managed.contents.context, ctypes.py_object)
    ctypes.pythonapi.Py_DecRef(holder)


@_DESTRUCTOR
def _destroy(made: int) -> None:
    """Of a capsule that nobody took."""
    if _valid(made, _NAME):
        managed = _Managed.from_address(_inside(made, _NAME))
        managed.deleter(ctypes.pointer(managed))


class Borrowed:
    """Memory that another library lends, until this object is gone.

    Attributes:
        address: of the first element.
        shape, dtype: as NumPy calls them.
        dense: whether the elements lie in row-major order without gaps.
    """

    def __init__(self, made: Any) -> None:
        """``made``: a capsule of ``__dlpack__``, which nobody may take again."""
        self._managed = _Managed.from_address(_pointer(made, _NAME))
        _rename(made, _USED_NAME)
        tensor = self._managed.tensor
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.shape = tuple(tensor.shape[: tensor.ndim])
        self.dtype = _name_of(tensor.code, tensor.bits, tensor.lanes)
        strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
        self.dense = strides is None or _is_dense(self.shape, strides)

    def __del__(self) -> None:
        if self._managed.deleter:
            self._managed.deleter(ctypes.pointer(self._managed))


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def _type_of(dtype: str) -> tuple[int, int]:
    if dtype == "bfloat16":
        return _BFLOAT, 16
    kind = np.dtype(dtype)
    return _CODES[kind.kind], 8 * kind.itemsize


def _name_of(code: int, bits: int, lanes: int) -> str:
    """NumPy's name of an element type; raises TypeError where it has none."""
    if (code, bits) == (_BFLOAT, 16):
        return "bfloat16"
    kinds = {number: kind for kind, number in _CODES.items()}
    if code not in kinds or lanes != 1 or bits % 8:
        raise TypeError(f"elements of {lanes} x {bits} bits, code {code}")
    return "bool" if kinds[code] == "b" else str(np.dtype(f"{kinds[code]}{bits // 8}"))

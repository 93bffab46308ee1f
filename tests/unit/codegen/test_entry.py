"""The entry of a library: its checks, in machine code."""

from __future__ import annotations

import ctypes
import io
from typing import Any

import numpy as np
import pytest

from codegen.elf.merge import merge_objects
from codegen.elf.read import data_object, read_object
from codegen.elf.write import write_object
from codegen.entry import (
    BUSY,
    CONSTANTS_SYMBOL,
    NOT_INITIALIZED,
    NULL_POINTER,
    OK,
    Entry,
    MovingOperand,
    Operand,
    build_entry,
    entry_symbols,
)
from codegen.host import cpu_target
from codegen.kernel import Kernel
from codegen.llvm.jit import Library, load
from codegen.llvm.machine import emit_object, triple_of

TARGET = cpu_target("cpu", 1)

# Calls the entry once more from inside, and stores what that returns and a constant.
KERNEL = """
declare i32 @net_run(ptr, ptr)
define void @k(ptr %args) {
  %inputs = getelementptr ptr, ptr %args, i64 0
  %status = call i32 @net_run(ptr %inputs, ptr %inputs)
  %at = getelementptr ptr, ptr %args, i64 1
  %weight = load ptr, ptr %at
  %value = load i32, ptr %weight
  %out.at = getelementptr ptr, ptr %args, i64 2
  %out = load ptr, ptr %out.at
  store i32 %status, ptr %out
  %second = getelementptr i32, ptr %out, i64 1
  store i32 %value, ptr %second
  ret void
}
"""


def link(entry: Entry, *kernels: str) -> Library:
    start = read_object(build_entry(entry, TARGET))
    texts = [f'target triple = "{triple_of(TARGET)}"\n{text}' for text in kernels]
    parts = [read_object(emit_object(text, TARGET)) for text in texts]
    constants = np.arange(32, dtype=np.int32).view(np.uint8)
    data = data_object(CONSTANTS_SYMBOL, constants, start)
    stream = io.BytesIO()
    write_object(merge_objects([start, *parts, data], entry_symbols(entry.prefix)), stream)
    return load([Kernel("net", "net_run", stream.getvalue(), (), 0, TARGET, 0)])


def functions(library: Library) -> tuple[Any, Any, Any]:
    run = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    init, free = ctypes.CFUNCTYPE(ctypes.c_int), ctypes.CFUNCTYPE(None)
    return (init(library.address("net_init")), run(library.address("net_run")),
            free(library.address("net_free")))  # fmt: skip


def table(*arrays: np.ndarray[Any, Any]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


@pytest.mark.parametrize("offset", [0, 64])
def test_a_call_during_a_call_is_refused(offset: int) -> None:
    operands = (Operand("input", 0), Operand("constants", 4 + offset), Operand("arena", 8))
    library = link(Entry("net", [("k", operands)], 1, [(Operand("arena", 8), 8)], 16), KERNEL)
    init, run, free = functions(library)
    x, y = np.zeros(4, np.int32), np.full(2, -1, np.int32)
    assert run(table(x), table(y)) == NOT_INITIALIZED
    assert init() == OK and init() == OK
    assert run(None, table(y)) == NULL_POINTER
    assert run(table(x), (ctypes.c_void_p * 1)(None)) == NULL_POINTER
    assert y.tolist() == [-1, -1]
    for _ in range(2):  # the claim is given back
        assert run(table(x), table(y)) == OK
        assert y.tolist() == [BUSY, 1 + offset // 4]
    free()
    assert run(table(x), table(y)) == NOT_INITIALIZED
    free()


def test_outputs_are_written_where_they_belong() -> None:
    """And inside of them; the second output is a copy of the first."""
    second = MovingOperand(Operand("output", 0), 8, 0)
    calls = [("k", (Operand("input", 0), Operand("constants", 4 * n), out))
             for n, out in ((1, Operand("output", 0)), (2, second))]  # fmt: skip
    outputs = [(Operand("output", 0), 16), (Operand("output", 0), 16)]
    library = link(Entry("net", calls, 1, outputs, 0), KERNEL)
    init, run, free = functions(library)
    x, y, z = np.zeros(4, np.int32), np.zeros(4, np.int32), np.zeros(4, np.int32)
    assert init() == OK and run(table(x), table(y, z)) == OK
    assert y.tolist() == z.tolist() == [BUSY, 1, BUSY, 2]
    free()


def test_what_has_no_elements_may_have_no_address() -> None:
    """As that of an empty vector of C++."""
    outputs = [(Operand("output", 0), 0), (Operand("arena", 0), 4)]
    entry = Entry("net", [], 2, outputs, 16, empty_inputs=frozenset([1]))
    library = link(entry)
    init, run, free = functions(library)
    x, y = np.zeros(4, np.int32), np.zeros(1, np.int32)
    given = (ctypes.c_void_p * 2)(x.ctypes.data, None)
    found = (ctypes.c_void_p * 2)(None, y.ctypes.data)
    assert init() == OK and run(given, found) == OK
    assert run((ctypes.c_void_p * 2)(None, x.ctypes.data), found) == NULL_POINTER
    assert run(given, (ctypes.c_void_p * 2)(y.ctypes.data, None)) == NULL_POINTER
    free()


def test_no_inputs_and_no_kernels() -> None:
    outputs = [(Operand("constants", 8), 4), (Operand("constants", 0), 4)]
    library = link(Entry("net", [], 0, outputs, 0))  # owns the code
    init, run, free = functions(library)
    y, z = np.zeros(1, np.int32), np.full(1, 9, np.int32)
    assert init() == OK and run(None, table(y, z)) == OK
    assert (y[0], z[0]) == (2, 0)
    free()

"""Relocatable objects: merged without a linker, and what is refused."""

from __future__ import annotations

import ctypes
import io

import numpy as np
import pytest

from codegen.elf.merge import merge_objects
from codegen.elf.read import data_object, read_object
from codegen.elf.write import write_object
from codegen.errors import ObjectFileError
from codegen.host import cpu_target
from codegen.kernel import Kernel
from codegen.llvm.jit import load
from codegen.llvm.machine import emit_object, triple_of

TARGET = cpu_target("cpu", 1)

CALLER = """
@table = external hidden constant i8
@calls = internal global i32 0
declare hidden i32 @callee(ptr)
declare i32 @abs(i32)
define i32 @entry() {
  %old = load i32, ptr @calls
  %new = add i32 %old, 1
  store i32 %new, ptr @calls
  %at = getelementptr i8, ptr @table, i64 8
  %found = call i32 @callee(ptr %at)
  %positive = call i32 @abs(i32 %found)
  %sum = add i32 %positive, %new
  ret i32 %sum
}
define i32 @spare() {
  ret i32 1
}
"""
CALLEE = """
@weights = internal constant [4 x i32] [i32 1, i32 20, i32 300, i32 4000]
define i32 @callee(ptr %at) {
  %index = load i32, ptr %at
  %slot = getelementptr i32, ptr @weights, i32 %index
  %found = load i32, ptr %slot
  ret i32 %found
}
"""


def compiled(text: str) -> bytes:
    return emit_object(f'target triple = "{triple_of(TARGET)}"\n{text}', TARGET)


def merged_bytes(*texts: str) -> bytes:
    objects = [read_object(compiled(text)) for text in texts]
    table = np.array([0, 0, 3, 9], np.int32).view(np.uint8)
    merged = merge_objects([*objects, data_object("table", table, objects[0])], ["entry"])
    stream = io.BytesIO()
    write_object(merged, stream)
    assert merged.undefined == ("abs",)
    return stream.getvalue()


def test_the_merged_object_computes_what_its_parts_do() -> None:
    code = merged_bytes(CALLER, CALLEE)
    library = load([Kernel("merged", "entry", code, (), 0, TARGET, 0)])
    entry = ctypes.CFUNCTYPE(ctypes.c_int32)(library.address("entry"))
    assert [entry(), entry()] == [4001, 4002]


def test_all_but_the_exported_symbols_are_private() -> None:
    merged = read_object(merged_bytes(CALLEE, CALLER))
    bindings = {
        name: int(row["info"]) >> 4
        for name, row in zip(merged.names, merged.symbols, strict=True)
        if name
    }
    assert {name for name, binding in bindings.items() if binding} == {"entry", "abs"}
    assert {"callee", "spare", "table"} <= set(bindings)
    table = next(s for s in merged.sections if s.name == ".symtab")
    assert int(table.header["info"]) == len(merged.names) - 2  # private symbols come first


def test_a_symbol_must_be_defined_once() -> None:
    caller, callee = read_object(compiled(CALLER)), read_object(compiled(CALLEE))
    with pytest.raises(ObjectFileError, match="'callee' is defined twice"):
        merge_objects([caller, callee, callee], ["entry"])
    with pytest.raises(ObjectFileError, match="not defined: other"):
        merge_objects([caller, callee], ["entry", "other"])


def test_machines_must_agree() -> None:
    neon = cpu_target("cpu-neon", 1)
    text = f'target triple = "{triple_of(neon)}"\n{CALLEE}'
    with pytest.raises(ObjectFileError, match="2 different machines"):
        merge_objects([read_object(compiled(CALLER)), read_object(emit_object(text, neon))], [])


@pytest.mark.parametrize("size", [0, 3, 40, 64, 200, -10])
def test_damaged_objects_are_refused(size: int) -> None:
    with pytest.raises(ObjectFileError, match=r"ELF|damaged"):
        read_object(compiled(CALLEE)[:size], "k0")


def test_a_shared_library_is_no_object() -> None:
    code = bytearray(compiled(CALLEE))
    code[16] = 3
    with pytest.raises(ObjectFileError, match="type 3, not relocatable"):
        read_object(bytes(code))

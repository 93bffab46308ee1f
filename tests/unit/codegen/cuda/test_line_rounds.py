"""Rounds by lines: the same elements are copied, each once, and a warp reads whole lines."""

from __future__ import annotations

import re
from itertools import product

import pytest

from codegen.cuda.build import device_functions, emit
from codegen.cuda.device import Binding, Cooperative, DeviceFunction, Fetch, walk_device
from codegen.cuda.passes.line_rounds import rounds_along_lines
from codegen.passes.affine import flatten
from sketch.lower import lower
from sketch.nest.loopnest import Affine, Buffer, BufferLoad, LoopVar, Scope, Store
from sketch.rules.generate import generate
from tests.support.cuda_programs import GPU, row_of
from tests.support.workloads import matmul_dag

THREADS = 64


def copy_of(rows: int, pieces: int, width: int = 4) -> DeviceFunction:
    """Rows of ``pieces`` of ``width`` floats from a wider array into a tile."""
    row, place = LoopVar("row"), LoopVar("place")
    size = rows * pieces * width
    source = Buffer("A", "float32", (rows, 1024), (1024, 1), (1024, 1), Scope.INPUT, rows * 1024)
    strides = (pieces * width, 1)
    tile = Buffer("tile", "float32", (rows, pieces * width), strides, strides, Scope.SHARED, size)
    place_of = (Affine(((row, 1),)), Affine(((place, 1),)))
    load = BufferLoad(source, place_of)
    store = Store((tile,), place_of, (load,))
    bindings = (Binding(row, rows, 1), Binding(place, pieces, width))
    node = Cooperative(bindings, (Fetch(store, load, None, width),))
    return DeviceFunction((), (Binding(LoopVar("thread"), THREADS, 1),), (node,))


def places(function: DeviceFunction) -> list[tuple[int, int]]:
    """Where each point reads and writes, in the order of its number."""
    (node,) = function.body
    assert isinstance(node, Cooperative)
    (copy,) = node.body
    assert isinstance(copy, Fetch)
    sides = [
        flatten(copy.source.buffer, copy.source.indices)[0],
        flatten(copy.store.targets[0], copy.store.indices)[0],
    ]
    found = []
    for values in product(*(range(b.extent) for b in node.bindings)):
        at = {b.var: v * b.stride for b, v in zip(node.bindings, values, strict=True)}
        one, two = (f.const + sum(c * at[var] for var, c in f.terms) for f in sides)
        found.append((one, two))
    return found


@pytest.mark.parametrize(("rows", "pieces"), [(16, 16), (32, 32), (8, 64), (64, 16)])
def test_each_piece_is_copied_once_and_a_thread_has_fewer_rows(rows: int, pieces: int) -> None:
    before = copy_of(rows, pieces)
    after = rounds_along_lines(before)
    found = places(after)
    assert sorted(found) == sorted(places(before)) and found != places(before)
    rows_of_thread = {one // 1024 for one, _ in found[::THREADS]}
    assert len(rows_of_thread) == max(1, rows * 8 // THREADS)
    for first in range(0, len(found), 8):  # lines of 128 bytes
        line = [one for one, _ in found[first : first + 8]]
        assert line == list(range(line[0], line[0] + 32, 4)) and line[0] % 32 == 0


@pytest.mark.parametrize(
    ("rows", "pieces", "width"),
    [
        (64, 8, 4),  # one line a row
        (16, 12, 4),  # rows of a line and a half
        (16, 16, 2),  # pieces of 8 bytes
        (12, 16, 4),  # rounds that end within a line
        (2, 16, 4),  # less than one round
    ],
)
def test_other_copies_stay(rows: int, pieces: int, width: int) -> None:
    before = copy_of(rows, pieces, width)
    assert places(rounds_along_lines(before)) == places(before)


def test_wide_tiles_of_a_product_have_such_rounds() -> None:
    sketch, *_ = generate(matmul_dag(256, 256, 256), GPU)
    row = row_of({
        "C.i@1": 1, "C.i@2": 2, "C.i@3": 4, "C.i@4": 8, "C.j@1": 1, "C.j@2": 2, "C.j@3": 8,
        "C.j@4": 8, "C.local.k@1": 1, "C.local.k@2": 16, "C.local.k@tiles": 2,
        "A.cache.d1@layout": 0, "B.cache.d1@layout": 0,
    }, sketch)  # fmt: skip
    nest = lower(sketch, row)
    (function,) = device_functions(nest, GPU)
    walked = [
        node.bindings[0].var.name
        for node in walk_device(function.body)
        if isinstance(node, Cooperative) and isinstance(node.body[0], Fetch)
    ]
    assert sum(name.endswith(".line") for name in walked) == 1  # of B, whose rows are 512 bytes
    assert re.search(r"&B\[B_next\] \+ \d+ \* \(?round", emit(nest, GPU).text)

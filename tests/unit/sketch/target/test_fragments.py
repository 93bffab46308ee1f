"""How the units of warps are spread over threads: every element once, as the PTX ISA has it."""

from __future__ import annotations

from itertools import product

import pytest

from sketch.lang.dtypes import size_of
from sketch.target.fragments import REGISTER_BYTES, WARP
from sketch.target.gpu_targets import cuda_target
from sketch.target.units import UNITS, TensorUnit, units_of

ARCHS = ("t4", "sm_80", "sm_90", "sm_90a", "h200", "sm_100")
WARP_UNITS = [unit for unit in UNITS if unit.fragments is not None]


@pytest.mark.parametrize(
    "unit", {u.fragments: u for u in WARP_UNITS}.values(), ids=lambda unit: unit.name
)
def test_each_element_has_one_place(unit: TensorUnit) -> None:
    assert unit.fragments is not None
    lhs, rhs, acc = unit.fragments
    shapes = [(acc, unit.m, unit.n)]
    if not unit.reads_shared:
        shapes += [(lhs, unit.m, unit.k), (rhs, unit.n, unit.k)]
    for fragment, rows, columns in shapes:
        places = fragment.places()
        assert sorted(places.values()) == sorted(product(range(rows), range(columns)))
        assert {lane for lane, _, _ in places} == set(range(unit.lanes))
        assert {register for _, register, _ in places} == set(range(fragment.registers))
    packs = {place for _, _, place in lhs.places()} if lhs.parts else set()
    assert unit.reads_shared or packs == set(range(REGISTER_BYTES // size_of(unit.lhs)))


def test_halves_are_where_the_tables_of_ptx_say() -> None:
    """Of m16n8k16: row = lane / 4 for a0, a1, a4, a5, else + 8; and so on."""
    (unit,) = [unit for unit in WARP_UNITS if unit.name == "mma.m16n8k16.f16"]
    assert unit.fragments is not None
    lhs, rhs, acc = (fragment.places() for fragment in unit.fragments)
    for lane in range(WARP):
        group, thread = divmod(lane, 4)
        for i in range(8):
            row = group if i < 2 or 4 <= i < 6 else group + 8
            column = thread * 2 + (i & 1) + (8 if i >= 4 else 0)
            assert lhs[lane, i // 2, i % 2] == (row, column)
        for i in range(4):
            assert rhs[lane, i // 2, i % 2] == (group, thread * 2 + (i & 1) + (8 if i > 1 else 0))
            assert acc[lane, i, 0] == (group + (8 if i > 1 else 0), thread * 2 + (i & 1))


def test_bytes_are_where_the_tables_of_ptx_say() -> None:
    (unit,) = [unit for unit in WARP_UNITS if unit.name == "mma.m16n8k32.u8.s8"]
    assert unit.fragments is not None
    lhs, rhs, _ = (fragment.places() for fragment in unit.fragments)
    for lane in range(WARP):
        group, thread = divmod(lane, 4)
        for i in range(16):
            row = group if i < 4 or 8 <= i < 12 else group + 8
            assert lhs[lane, i // 4, i % 4] == (row, thread * 4 + (i & 3) + (16 if i >= 8 else 0))
        for i in range(8):
            assert rhs[lane, i // 4, i % 4] == (group, thread * 4 + (i & 3) + (16 if i > 3 else 0))


def test_singles_are_where_the_tables_of_ptx_say() -> None:
    """Of m16n8k8 in tf32: row = lane / 4 for a0 and a2, column = lane % 4 for a0 and a1."""
    (unit,) = [unit for unit in WARP_UNITS if unit.name == "mma.m16n8k8.tf32"]
    assert unit.fragments is not None
    lhs, rhs, _ = (fragment.places() for fragment in unit.fragments)
    for lane in range(WARP):
        group, thread = divmod(lane, 4)
        for i in range(4):
            assert lhs[lane, i, 0] == (group + 8 * (i % 2), thread + 4 * (i // 2))
        for i in range(2):
            assert rhs[lane, i, 0] == (group, thread + 4 * i)


def test_architectures_have_the_units_that_their_instructions_are() -> None:
    names = {arch: {unit.name for unit in units_of(cuda_target(arch))} for arch in ARCHS}
    assert names["t4"] == {"mma.m16n8k8.f16"}
    alone = {unit.name for unit in WARP_UNITS if unit.lanes == WARP}
    assert names["sm_80"] == alone
    assert names["sm_90"] == names["sm_90a"] == names["h200"] == {u.name for u in WARP_UNITS}
    assert names["sm_100"] == alone


def test_results_of_four_warps_are_where_the_figure_of_ptx_says() -> None:
    """Of wgmma.m64nN: d0 and d1 of a thread are neighbours, d2 and d3 are 8 rows below them, and
    each further four 8 columns on.
    """
    (unit,) = [unit for unit in WARP_UNITS if unit.name == "wgmma.m64n128k16.bf16"]
    assert unit.fragments is not None
    places = unit.fragments[2].places()
    for thread in range(unit.lanes):
        warp, lane = divmod(thread, WARP)
        for i in range(unit.n // 2):
            row = 16 * warp + lane // 4 + (8 if i % 4 > 1 else 0)
            assert places[thread, i, 0] == (row, 8 * (i // 4) + lane % 4 * 2 + i % 2)

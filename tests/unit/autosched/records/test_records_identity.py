"""Which machines are one and the same to a record."""

from dataclasses import replace

import pytest

from autosched.records.identity import (
    akin,
    compatible,
    distance,
    executable,
    recorded,
    target_difference,
)
from sketch.target.gpu_targets import cuda_target, emulated
from sketch.target.target import Target

HERE = Target("cpu", "znver4", "+avx2,+avx512f,+fma,+sha,-zu", threads=2, vector_bytes=64)


@pytest.mark.parametrize(
    "change",
    [
        {"features": "+avx2,+avx512f,+fma,+sha"},
        {"features": "-new,+fma,+avx512f,+avx2,-sha"},
        {"l1_bytes": 1 << 16},
        {"l2_bytes": 1 << 22},
        {"l3_bytes": 1 << 20},
        {"instruction_budget": 7},
        {"fma_accumulators": 7},
    ],
)
def test_what_code_does_not_depend_on_makes_no_other_machine(change):
    other = replace(HERE, **change)
    assert compatible(other, HERE) and compatible(HERE, other)
    assert target_difference(other, HERE) == ()
    assert recorded(recorded(other)) == recorded(other)
    assert compatible(recorded(other), HERE)


@pytest.mark.parametrize(
    "change, difference",
    [
        ({"threads": 4}, "threads 4, not 2"),
        ({"arch": "znver5"}, "arch znver5, not znver4"),
        ({"vector_bytes": 32}, "vector_bytes 32, not 64"),
        ({"features": "+avx2,+fma"}, "without avx512f"),
        ({"features": "+avx2,+avx512f,+fma,+avx512vl,+aes"}, "with avx512vl"),
    ],
)
def test_what_code_depends_on_does_and_only_that_is_named(change, difference):
    other = replace(HERE, **change)
    assert not compatible(other, HERE)
    assert target_difference(other, HERE) == (difference,)


def test_gpus_are_told_apart_by_card_and_by_whether_they_are_emulated():
    h200, h100 = cuda_target("h200"), cuda_target("h100")
    read = replace(h200, l2_bytes=50 << 20, card=replace(h200.card, hertz=1.8e9))
    assert compatible(read, h200)
    assert not compatible(h100, h200) and not compatible(emulated(h200), h200)
    assert target_difference(h100, h200) == ("h100, not h200",)
    assert target_difference(emulated(h200), h200) == ("emulated h200, not h200",)
    assert Target.from_json(emulated(h200).compact_json()) == emulated(h200)


def test_the_nearest_machine_has_the_same_vectors_then_the_same_threads():
    far_to_near = [
        replace(HERE, vector_bytes=16),
        replace(HERE, threads=8),
        replace(HERE, threads=4, arch="old"),
        replace(HERE, threads=4, l2_bytes=1 << 18),
        replace(HERE, threads=4),
        HERE,
    ]
    distances = [distance(target, HERE) for target in far_to_near]
    assert distances == sorted(distances, reverse=True)
    assert not any(distances[-1])


def test_wider_vectors_and_other_kinds_are_of_no_use():
    assert executable(replace(HERE, vector_bytes=32), HERE)
    assert not executable(replace(HERE, vector_bytes=128), HERE)
    assert not executable(cuda_target(), HERE)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("znver4", "znver5", True),
        ("emeraldrapids", "sapphirerapids", True),
        ("graniterapids", "emeraldrapids", True),
        ("cascadelake", "skylake-avx512", True),
        ("emeraldrapids", "znver4", False),
        ("icelake-server", "emeraldrapids", False),
    ],
)
def test_lines_of_processors(one: str, other: str, alike: bool) -> None:
    assert akin(replace(HERE, arch=one), replace(HERE, arch=other)) == alike
    assert not akin(replace(HERE, arch=one, threads=1), replace(HERE, arch=other))

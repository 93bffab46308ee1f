"""What the rows of networks have to reach, and what makes a row count for nothing."""

from __future__ import annotations

import pytest

from autosched import zoo
from benchmarks.network_cases import CASES, flags
from benchmarks.workloads import Network

ROW = {
    "ours_ms": 10.0,
    "ratio_low": 1.75,
    "ratios": {"torch_eager": {"ratio": 1.3, "ratio_low": 1.2}},
    "sum_of_tasks": 1.02,
    "profile_residual_percent": 1.0,
    "max_error": 9e-6,
    "kernels_without_record": 0,
    "host_operators": 0,
}


def bars(name, **changes):
    row = ROW | changes
    return CASES[name].bars(row | {"flags": flags(row)})


def test_every_case_is_a_network_of_the_zoo():
    assert set(CASES) <= set(zoo.NAMES)


def test_all_bars_of_a_good_row_hold():
    assert len(bars("resnet-18")) == 5
    assert all(bars("resnet-18").values())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("resnet-18", {"ratio_low": 1.69}),
        ("mobilenet-v2", {"ratio_low": 1.24}),
        ("resnet-18", {"ratios": {}}),
        ("resnet-18", {"max_error": float("nan")}),
        ("resnet-18", {"max_error": 3e-5}),
        ("resnet-18", {"sum_of_tasks": 0.8}),
        ("resnet-18", {"profile_residual_percent": 3.0}),
    ],
)
def test_a_row_may_miss_one_bar(name, change):
    assert sum(not holds for holds in bars(name, **change).values()) == 1


def test_a_batch_has_rows_of_its_own_and_another_bar():
    one, many = CASES["resnet-18"], CASES["resnet-18"].batched(16)
    row = ROW | {"flags": [], "ratio_low": 1.2}
    assert one.batched(1) is one
    assert (one.label, many.label) == ("resnet-18", "resnet-18.batch16")
    assert all(many.bars(row).values())
    assert sum(not holds for holds in one.bars(row).values()) == 1


@pytest.mark.parametrize("what", ["kernels_without_record", "host_operators"])
def test_an_incomplete_row_misses_all_bars(what):
    assert flags(ROW | {what: 2})[0].startswith("2 ")
    assert not any(bars("resnet-18", **{what: 2}).values())


def test_integer_inputs_are_small_indices():
    inputs = (("ids", (2, 3), "int64"), ("data", (4,), "float32"))
    arrays = Network("net", "path", inputs, ("out",), 1.0).arrays()
    assert arrays["ids"].dtype == "int64" and 0 <= arrays["ids"].min() <= arrays["ids"].max() < 1000
    assert arrays["data"].dtype == "float32" and arrays["data"].shape == (4,)

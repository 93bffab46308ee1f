"""How far timings can be believed: from numbers that are given, no clock is looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autosched.runtime.benchmark import Benchmark
from autosched.runtime.module import Module
from autosched.system import stability
from autosched.system.stability import (
    EMULATED,
    Conditions,
    Stability,
    Watch,
    conditions_of,
    cpu_ticks,
    relative_deviation,
    share,
    tree_cpu_s,
)
from tests.support.archives import small_module

#        user nice system idle iowait irq softirq steal guest
TICKS = (30, 10, 10, 30, 0, 0, 0, 20, 5)


@pytest.fixture(scope="module")
def module() -> Module:
    return small_module()


def test_shares_are_of_the_time_that_passed() -> None:
    found = conditions_of(TICKS, 0.3, 1.5)
    assert found == Conditions(1.5, 0.2, pytest.approx(0.2))  # 50 busy ticks, 30 of them ours
    assert conditions_of(TICKS, 9.0).others == 0.0  # rounding: we cannot have had more than all


@pytest.mark.parametrize("ticks", [(), (1, 2, 3), (0,) * 10, (1, 1, 1, 1, 1, 1, 1, 1)])
def test_what_the_system_does_not_say_is_not_known(ticks: tuple[int, ...]) -> None:
    assert conditions_of(ticks, 1.0, 0.5) == Conditions(0.5, None, None)


def test_only_the_cpus_that_are_ours_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "stat"
    path.write_text("cpu  9 9 9\ncpu0 1 2 3\ncpu1 10 20 30\ncpu10 7 7 7\nintr 5\n")
    monkeypatch.setattr(stability.os, "sched_getaffinity", lambda _: {0, 1})
    assert cpu_ticks(path) == (11, 22, 33)
    path.write_text("cpu0 one two\n")
    assert cpu_ticks(path) == cpu_ticks(tmp_path / "missing") == ()


def test_children_and_theirs_are_our_own(tmp_path: Path) -> None:
    def process(pid: int, parent: int, *times: int) -> None:
        (tmp_path / str(pid)).mkdir()
        text = f"{pid} (a) b ) S {parent} 0 0 0 0 0 0 0 0 0 {' '.join(map(str, times))} 0 0"
        (tmp_path / str(pid) / "stat").write_text(text)

    second = stability.os.sysconf("SC_CLK_TCK")
    process(7, 1, second, second, 0, 0)
    process(8, 7, 0, 0, second, second)
    process(9, 8, second, 0, 0, 0)
    process(10, 1, second, second, second, second)
    (tmp_path / "11").mkdir()
    (tmp_path / "11" / "stat").write_text("11 (cut off")
    assert tree_cpu_s(tmp_path, 7) == 5.0
    assert tree_cpu_s(tmp_path, 10) == 4.0
    assert tree_cpu_s(tmp_path / "none", 7) == 0.0
    assert tree_cpu_s() > 0.0


@pytest.mark.parametrize(
    "seconds, conditions, unstable",
    [
        ((1.0, 1.0, 1.05), Conditions(), False),
        ((1.0, 1.0, 1.5), Conditions(), True),
        ((1.0,), Conditions(), False),
        ((1.0, 1.0), Conditions(9.0, 0.04, 0.09), False),
        ((1.0, 1.0), Conditions(0.1, 0.06, 0.0), True),
        ((1.0, 1.0), Conditions(0.1, 0.0, 0.2), True),
    ],
)
def test_when_a_timing_is_said_to_be_unstable(
    seconds: tuple[float, ...], conditions: Conditions, unstable: bool
) -> None:
    found = Stability.of(seconds, conditions)
    assert found.unstable == unstable == found.to_json()["unstable"]
    assert str(found).startswith("unstable: " if unstable else "stable: ")


def test_text_and_json() -> None:
    found = Stability.of((1.0, 1.0, 1.3), Conditions(2.1, 0.12, 0.3))
    assert str(found) == (
        "unstable: std 17 % of median, load 2.1, 12 % stolen, 30 % used by others, 3 runs"
    )
    assert json.loads(json.dumps(found.to_json()))["stolen"] == 0.12
    assert str(Stability.of((1.0,))) == "stable: std unknown, 1 run"
    assert (share(0.034), share(0.141), share(None)) == ("3.4 %", "14 %", "")
    assert relative_deviation(()) is relative_deviation((1.0,)) is None


def test_estimated_times_are_neither_stable_nor_unstable() -> None:
    found = Stability.of((1.0, 1.0), EMULATED)
    assert str(found) == "emulated: times are estimates" and not found.unstable
    assert found.to_json()["emulated"] and "emulated" not in Stability.of((1.0,)).to_json()


def test_a_watch_looks_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([(100,) * 8, tuple(100 + t for t in TICKS[:8])])
    monkeypatch.setattr(stability, "cpu_ticks", lambda: next(looks))
    cpu = iter([5.0, 5.3])
    with Watch(lambda: next(cpu)) as watch:
        assert watch.conditions == Conditions()
    assert watch.conditions.stolen == 0.2 and watch.conditions.others == pytest.approx(0.2)


def test_every_timing_of_a_module_carries_it(module: Module) -> None:
    result = module.benchmark(repeats=5)
    profile = module.profile(repeats=4)
    explanation = module.explain(repeats=4)
    for found, runs in ((result, 5), (profile, 4), (explanation, 4)):
        assert found.stability.runs == runs
        assert found.to_json()["stability"] == found.stability.to_json()
        assert str(found.stability) in str(found)
    assert all(row.spread_percent is not None for row in (*profile.rows, profile.total))
    assert [row["spread_percent"] for row in explanation.to_json()["rows"]]
    for found in (profile, explanation):
        titles = str(found).splitlines()[1]
        assert " spread % " in titles and "std" not in titles  # which the line below tells of


def test_data_frames_carry_it(module: Module) -> None:
    pytest.importorskip("pandas")
    for found in (module.profile(repeats=3), module.explain(repeats=3)):
        frame = found.to_pandas()
        assert frame.attrs["stability"]["runs"] == 3
        assert "spread_percent" in frame.columns


def test_a_single_run_has_no_deviation() -> None:
    assert Benchmark("net", (1e-3,), 1).stability.deviation is None

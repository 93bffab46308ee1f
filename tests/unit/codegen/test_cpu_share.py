"""Quotas of control groups, as Linux writes them, of both versions, nested and in containers."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from codegen.cpu_share import cpu_quota, usable_cpus
from codegen.host import cpu_target


def version_two(folder: Path, group: str, quotas: dict[str, str], root: str = "/") -> Path:
    """A process in ``group``, and its hierarchy of version 2 with ``quotas`` by folder."""
    point = folder / "with space"
    for name, text in quotas.items():
        place = point / name.lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        (place / "cpu.max").write_text(text)
    process = folder / "process"
    process.mkdir(exist_ok=True)
    (process / "cgroup").write_text(f"0::{group}\n")
    (process / "mountinfo").write_text(
        "22 1 8:1 / / rw shared:1 - ext4 /dev/root rw\n"
        f"30 22 0:26 {root} {str(point).replace(' ', chr(92) + '040')} rw,nosuid shared:4 "
        "- cgroup2 cgroup2 rw\n"
    )
    return process


@pytest.mark.parametrize(
    ("quotas", "expected"),
    [
        ({"/": "max 100000\n"}, math.inf),
        ({"/a/b": "200000 100000\n"}, 2.0),
        ({"/a/b": "250000 100000\n", "/a": "max 100000\n"}, 2.5),
        ({"/a/b": "max 100000\n", "/a": "150000 50000\n"}, 3.0),
        ({"/a/b": "800000 100000\n", "/a": "300000 100000\n", "/": "400000 100000\n"}, 3.0),
        ({"/a/b": "50000 100000\n"}, 0.5),
        ({"/a/b": "damaged"}, math.inf),
        ({"/a/b": ""}, math.inf),
        ({"/other": "100000 100000\n"}, math.inf),
    ],
)
def test_the_smallest_quota_on_the_path_counts(
    tmp_path: Path, quotas: dict[str, str], expected: float
) -> None:
    assert cpu_quota(version_two(tmp_path, "/a/b", quotas)) == expected


@pytest.mark.parametrize("group", ["/", "/docker/1", "/../../docker/1"])
def test_a_container_sees_its_own_group_as_the_topmost(tmp_path: Path, group: str) -> None:
    process = version_two(tmp_path, group, {"/": "200000 100000"}, root="/docker/1")
    assert cpu_quota(process) == 2.0


def test_version_one(tmp_path: Path) -> None:
    point = tmp_path / "cpu"
    for name, quota in (("", -1), ("pod", 300_000), ("pod/c", 400_000)):
        place = point / name
        place.mkdir(exist_ok=True)
        (place / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        (place / "cpu.cfs_period_us").write_text("100000\n")
    process = tmp_path / "process"
    process.mkdir()
    (process / "cgroup").write_text("9:memory:/x\n4:cpu,cpuacct:/pod/c\n0::/\n")
    (process / "mountinfo").write_text(
        f"33 22 0:30 / {point} rw - cgroup cgroup rw,cpu,cpuacct\n"
        f"34 22 0:31 / {tmp_path} rw - cgroup cgroup rw,memory\n"
    )
    assert cpu_quota(process) == 3.0


def test_a_system_that_does_not_tell(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path / "nothing") == math.inf
    assert usable_cpus(tmp_path / "nothing") == len(os.sched_getaffinity(0))


def test_the_default_number_of_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    for text, threads in (("250000 100000", 2), ("30000 100000", 1), ("max 100000", 8)):
        process = version_two(tmp_path, "/", {"/": text})
        assert usable_cpus(process) == threads
    monkeypatch.setattr("codegen.host.usable_cpus", lambda: 3)
    assert cpu_target("cpu").threads == 3 and cpu_target("cpu", 5).threads == 5

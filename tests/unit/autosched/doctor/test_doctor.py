"""``autosched doctor``: each thing that a machine may lack is named, with what to do."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched.cli.app import main
from autosched.doctor import device, diagnosis, memory, noise, packages, processor, software
from autosched.doctor.finding import VERDICTS, Finding
from autosched.system.stability import Conditions
from codegen.calibration import MEASURED, Calibration
from codegen.host import cpu_target


def group(folder: Path, **files: str) -> Path:
    """A process in a container whose control group has these files (``cpu_max`` is cpu.max)."""
    point = folder / "groups"
    point.mkdir()
    for name, text in files.items():
        (point / name.replace("_", ".", 1)).write_text(f"{text}\n")
    (folder / "cgroup").write_text("0::/\n")
    (folder / "mountinfo").write_text(f"30 22 0:26 / {point} rw shared:4 - cgroup2 cgroup2 rw\n")
    return folder


def test_a_processor_without_avx2() -> None:
    assert processor.simd(cpu_target("cpu-avx2", 1)).verdict == "ok"
    assert processor.simd(cpu_target("cpu-neon", 1)).verdict == "ok"
    old = processor.simd(cpu_target("cpu-sse2", 1))
    assert (old.verdict, "no AVX2" in old.found) == ("advice", True) and "CPU model" in old.remedy


@pytest.mark.parametrize(
    ("quota", "verdict", "found"),
    [("max 100000", "ok", "no quota"), ("50000 100000", "advice", "a quota of 0.5"),
     ("90000000 100000", "ok", "a quota of 900")],
)  # fmt: skip
def test_a_quota_below_the_cpus(tmp_path: Path, quota: str, verdict: str, found: str) -> None:
    finding = processor.cpus(group(tmp_path, cpu_max=quota))
    assert finding.verdict == verdict and found in finding.found
    assert bool(finding.remedy) == (verdict == "advice")


def test_two_threads_of_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "siblings", lambda cpu: (cpu // 2, cpu // 2 + 8))
    assert processor.cores([0, 2]) == Finding("cores", "ok", "2 CPUs on 2 cores")
    finding = processor.cores([0, 1, 2, 3])
    assert finding.found == "4 CPUs on 2 cores" and "--threads 2" in finding.remedy


def test_threads_that_cannot_be_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert processor.pinning().verdict == "ok"

    def refuse(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    finding = processor.pinning()
    assert finding.verdict == "advice" and "not permitted" in finding.found


@pytest.mark.parametrize(
    ("name", "verdict", "found"),
    [("performance", "ok", "performance"), ("powersave", "advice", "powersave"),
     (None, "ok", "not visible")],
)  # fmt: skip
def test_a_governor_that_changes_clocks(
    tmp_path: Path, name: str | None, verdict: str, found: str
) -> None:
    for cpu in os.sched_getaffinity(0) if name else ():
        folder = tmp_path / f"cpu{cpu}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(f"{name}\n")
    finding = processor.governor(tmp_path)
    assert finding.verdict == verdict and found in finding.found
    assert ("cpupower" in finding.remedy) == (verdict == "advice")


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("[always] madvise never", "ok"), ("always [madvise] never", "ok"),
     ("always madvise [never]", "advice"), (None, "advice")],
)  # fmt: skip
def test_huge_pages(tmp_path: Path, text: str | None, verdict: str) -> None:
    file = tmp_path / "enabled"
    if text is not None:
        file.write_text(text + "\n")
    finding = memory.huge_pages(file)
    assert finding.verdict == verdict and bool(finding.remedy) == (verdict == "advice")


def test_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 1 << 36)
    limited = memory.memory(group(tmp_path, memory_max="1000000000"))
    assert limited.verdict == "advice" and "limit is 1000.0 MB" in limited.found
    (tmp_path / "groups" / "memory.max").write_text("max\n")
    assert memory.memory(tmp_path).verdict == "ok"
    monkeypatch.setattr(memory, "available_bytes", lambda: 1 << 30)
    assert memory.memory(tmp_path).verdict == "advice"
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    assert memory.memory(tmp_path) == Finding("memory", "ok", "unknown")


def test_a_noisy_machine() -> None:
    equal = [1e-3] * 50
    assert noise.noise_of(equal, Conditions(0.1, 0.0, 0.0)).verdict == "ok"
    for times, others in ((equal, 0.4), ([1e-3, 2e-3] * 25, 0.0)):
        finding = noise.noise_of(times, Conditions(0.1, 0.0, others))
        assert finding.verdict == "advice" and finding.found.startswith("unstable")


def test_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Calibration("m", 1, dict.fromkeys(MEASURED, 1.0), {})
    for known, verdict in (
        (None, "advice"), (found, "ok"), (replace(found, disturbed=True), "advice")
    ):  # fmt: skip
        monkeypatch.setattr(noise, "current_calibration", lambda known=known: known)
        finding = noise.calibration()
        assert finding.verdict == verdict
        assert ("autosched calibrate" in finding.remedy) == (verdict == "advice")


def test_libraries_and_tools(tmp_path: Path) -> None:
    def refuse(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    assert software.openmp().verdict == "ok"
    finding = software.openmp(refuse)
    assert finding.verdict == "missing" and "apt-get install libgomp1" in finding.remedy
    assert software.linker({"cc": "cc"}.get) == Finding("linker", "ok", "cc")
    assert software.linker(lambda _: None).verdict == "absent"
    paranoid = tmp_path / "paranoid"
    assert software.counters(paranoid).verdict == "absent"
    for level, verdict in ((4, "absent"), (2, "ok"), (-1, "ok")):
        paranoid.write_text(f"{level}\n")
        assert software.counters(paranoid).verdict == verdict


def test_a_home_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software, "user_folder", lambda name: tmp_path / "no" / "such")
    assert software.folders().verdict == "ok"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "cannot be written to" in software.folders().found


def test_a_home_that_cannot_be_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refuse)
    assert software.folders().topic == "cache"


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, check in (
        ("missing_gpu", device.gpu),
        ("missing_compiler", device.nvrtc),
        ("missing_emulator", device.emulator),
    ):
        monkeypatch.setattr(device, name, lambda: "it is not there: install it")
        finding = check()
        assert finding.verdict == "absent" and finding.remedy
        monkeypatch.setattr(device, name, lambda: None)
        monkeypatch.setattr(device, "release_of_compiler", lambda: (13, 0))
        assert check().verdict == "ok"


def test_extras() -> None:
    lines = ["numpy>=2.0", 'numpy>=2.0; extra == "one"',
             "no-such-thing[a,b]==1.2 ; extra == 'two'", 'numpy; extra == "two"',
             'ruff; extra == "dev"']  # fmt: skip
    one, two = packages.extras(lines)
    assert (one.topic, one.verdict) == ("extra one", "ok") and one.found.startswith("numpy 2")
    assert (two.verdict, two.found) == ("absent", "without no-such-thing")
    assert two.remedy == 'pip install "autosched[two]"'


def test_the_command_says_all_of_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noise, "_SAMPLES", 5)
    assert main(["doctor", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    topics = [item["topic"] for item in found]
    assert len(set(topics)) == len(topics) > 15 and {"SIMD", "libgomp", "NVRTC"} <= set(topics)
    assert {item["verdict"] for item in found} <= set(VERDICTS)
    assert all(item["remedy"] for item in found if item["verdict"] in ("advice", "missing"))


def test_what_is_missing_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = diagnosis.Diagnosis((
        Finding("libgomp", "missing", "no such file", "apt-get install libgomp1"),
        Finding("NVRTC", "absent", "not installed"),
    ))  # fmt: skip
    monkeypatch.setattr(diagnosis, "examine", lambda: found)
    assert main(["doctor"]) == 1
    output, error = capsys.readouterr()
    assert error == "autosched: missing: libgomp (no such file) | apt-get install libgomp1\n"
    assert "what to do:\nlibgomp: apt-get install libgomp1" in output

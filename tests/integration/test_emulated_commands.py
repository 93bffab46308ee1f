"""Whole commands for a GPU on the emulated device: no GPU, no driver and no NVRTC is needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.measure.result import Timing
from autosched.records.best import target_warning
from autosched.records.log import RecordLog
from autosched.tuning.options import QUICK
from codegen.gpu.emulation.library import compiler
from sketch.operators.matmul import matmul

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")

ROOT = Path(asd.__file__).parent.parent
TARGET = asd.Target("cuda:h200", device="emulated")
WORKLOAD = "--workload GMM --args n=32,m=32,k=32 --target cuda:h200 --device emulated"
# A C++ compiler on a busy machine: the usual limits are of seconds that a clock shows.
PATIENT = asd.MeasureOptions(build_timeout_s=300.0, run_timeout_s=120.0)
TUNE = (
    f"tune {WORKLOAD} --preset quick --set search.batch_trials=2 "
    "--set measure.build_timeout_s=300 --set measure.run_timeout_s=120"
)


def task(card: asd.Target = TARGET) -> asd.Task:
    a = asd.placeholder((32, 48), name="a")
    b = asd.placeholder((48, 40), name="b", constant=True)
    return asd.Task(asd.ComputeDAG([matmul(a, b)]), card)


def test_a_task_is_tuned_and_its_module_computes_it(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    log = tmp_path / "task.jsonl"
    result = task().tune(trials=4, log=log, options=QUICK, measure=PATIENT)
    timings = [r.result for r in result.records if isinstance(r.result, Timing)]
    assert result.trials == 4 and timings
    assert all(record.target == TARGET for record in result.records)
    weights = rng.standard_normal((48, 40)).astype(np.float32)
    values = rng.standard_normal((32, 48)).astype(np.float32)
    (out,) = task().module({"b": weights}, log).run({"a": values}).values()
    assert np.abs(out - values @ weights).max() < 1e-4
    assert "emulated h200, not h200" in target_warning(result.records, asd.Target("cuda:h200"))
    assert max(t.error for t in timings if t.error is not None) < 1e-5


@pytest.mark.slow
def test_a_killed_tuning_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "gmm.jsonl"
    words = [*TUNE.split(), "--trials", "500", "--log", str(log), "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-m", "autosched", *words],
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while process.poll() is None and not (log.exists() and log.stat().st_size):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    before = len(RecordLog(log).read().records)
    wanted = before + 2
    assert main([*TUNE.split(), "--trials", str(wanted), "--log", str(log)]) == 0
    said = capsys.readouterr().out
    assert "vs untuned" in said
    assert f"next: autosched explain {WORKLOAD} --log {log}" in said
    records = RecordLog(log).read().records
    assert len([r for r in records if r.phase == "trial"]) == wanted
    assert all(r.target.card.emulated for r in records)


def test_too_little_device_memory_is_one_clear_error(tmp_path: Path) -> None:
    card = replace(TARGET.card, memory_bytes=4096)
    with pytest.raises(asd.AutoschedError, match="bytes of device memory are wanted"):
        task(replace(TARGET, card=card)).tune(trials=2, log=tmp_path / "log", options=QUICK)

"""Compiling with logs of other machines, and with records that no code can be made of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import autosched as asd
import codegen.backend
from autosched.measure.simulated import SimulatedRunner
from autosched.records.checksum import with_checksum
from autosched.records.log import RecordLog
from autosched.records.merge import merge
from autosched.records.record import to_json
from autosched.system.user_warnings import AutoschedWarning
from autosched.tuning.options import QUICK
from tests.support.log_mutations import sample_task

NETWORK = asd.zoo.build("mlp", image=8)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of an MLP for two threads."""
    path = tmp_path_factory.mktemp("log") / "mlp.jsonl"
    runner = SimulatedRunner()
    asd.tune(NETWORK, trials=18, log=path, threads=2, options=QUICK, runner=runner, quiet=True)
    return path


def rewritten(log: Path, folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The log with ``change`` applied to the target of every record."""
    lines = []
    for record in RecordLog(log).read().records:
        data = to_json(record)
        change(data["target"])
        lines.append(json.dumps(with_checksum(data)))
    path = folder / "other.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def compiled(
    log: Path, threads: int, recwarn: pytest.WarningsRecorder
) -> tuple[asd.Module, list[str]]:
    recwarn.clear()
    module = asd.compile(NETWORK, log=log, threads=threads)
    return module, [str(w.message) for w in recwarn if w.category is AutoschedWarning]


@pytest.mark.parametrize("threads", [1, 4])
def test_the_nearest_machine_serves_with_one_short_warning(
    threads: int, log: Path, recwarn: pytest.WarningsRecorder
) -> None:
    module, told = compiled(log, threads, recwarn)
    assert not module.untuned
    (warning,) = told
    assert f"threads 2, not {threads}" in warning and len(warning) < 150


def change_features(target: dict[str, Any]) -> None:
    target["features"] += ",-zu,+sha,-sha512"


def change_caches(target: dict[str, Any]) -> None:
    target.update(l3_bytes=target["l3_bytes"] // 2, l1_bytes=target["l1_bytes"] * 2)


@pytest.mark.parametrize("change", [change_features, change_caches])
def test_what_code_does_not_depend_on_leaves_records_good(
    change: Callable[[dict[str, Any]], None],
    log: Path,
    tmp_path: Path,
    recwarn: pytest.WarningsRecorder,
) -> None:
    module, told = compiled(rewritten(log, tmp_path, change), 2, recwarn)
    assert not module.untuned
    assert told == []


def test_wider_vectors_are_of_no_use(
    log: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    wide = rewritten(log, tmp_path, lambda target: target.update(vector_bytes=256))
    module, told = compiled(wide, 2, recwarn)
    assert module.untuned
    assert any("none can be used" in line for line in told)


def fail_at_first(
    monkeypatch: pytest.MonkeyPatch, count: int, module: ModuleType, name: str
) -> None:
    """The first ``count`` kernels that ``name`` of ``module`` is asked for cannot be built."""
    build, asked = getattr(module, name), []

    def fail(nest: Any, *rest: Any) -> Any:
        asked.append(nest)
        if len(asked) <= count:
            raise KeyError("no such variable")
        return build(nest, *rest)

    monkeypatch.setattr(module, name, fail)


@pytest.mark.parametrize(
    "failures, keep, untuned",
    [pytest.param(1, 16, 0, marks=pytest.mark.slow), (2, 16, 0), (1, 1, 1)],
)
def test_what_cannot_be_built_gives_way_to_the_next_and_then_to_the_draft(
    failures: int,
    keep: int,
    untuned: int,
    log: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
) -> None:
    merge([log], tmp_path / "best.jsonl", keep=keep)
    fail_at_first(monkeypatch, failures, codegen.backend, "build_kernel")
    module, told = compiled(tmp_path / "best.jsonl", 2, recwarn)
    failed = [line for line in told if "cannot be built: KeyError: 'no such variable'" in line]
    assert len(failed) == failures
    assert all("best.jsonl:" in line for line in failed)
    assert len(module.untuned) == untuned
    x = module.random_inputs()
    (result,) = module.run(x).values()
    (expected,) = asd.compile(NETWORK, threads=1).run(x).values()
    assert np.allclose(result, expected, atol=1e-5)


def test_a_single_program_goes_on_to_its_next_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    task = sample_task()
    task.tune(trials=6, log=tmp_path / "log.jsonl", options=QUICK, runner=SimulatedRunner())
    recwarn.clear()
    fail_at_first(monkeypatch, 2, codegen.backend, "build_kernel")
    kernel = task.compile(tmp_path / "log.jsonl")
    assert kernel.object_code
    failed = [str(w.message) for w in recwarn if "cannot be built" in str(w.message)]
    assert len(failed) == 2 and all("log.jsonl:" in line for line in failed)

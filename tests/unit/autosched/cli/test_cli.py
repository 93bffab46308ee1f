import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autosched.cli.app import COMMANDS, main, make_parser
from autosched.cli.command import write_json
from autosched.cli.model import open_network
from autosched.cli.policy import named_policy
from autosched.cli.tune import next_command, tune_options
from autosched.measure.options import MeasureOptions
from autosched.records.log import RecordLog
from autosched.report.comparison import Comparison
from autosched.runtime.benchmark import Benchmark
from autosched.search.options import BanditOptions
from autosched.system.errors import OptionError
from autosched.tuning.job import TuneJob
from autosched.tuning.options import SchedulerOptions
from costmodel.gbdt_options import GbdtOptions
from sketch.target.target import Target
from tests.support.cli_log import make_log, make_record


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return make_log(tmp_path / "log.jsonl")


@pytest.mark.parametrize("command", ["", *(c.name for c in COMMANDS), "records stats"])
def test_help_teaches_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*command.split(), "--help"])
    text = capsys.readouterr().out
    assert stop.value.code == 0
    assert "autosched tune resnet-18" in text or "examples:\n  autosched" in text


def test_operators_with_kernels_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx")
    from autosched.onnx.importer.table import IMPORTERS

    assert main(["operators"]) == 0
    text = capsys.readouterr().out
    assert " ".join(text.split()).startswith(", ".join(sorted(IMPORTERS)))
    assert main(["operators", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == sorted(IMPORTERS)


def test_completion_needs_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("autosched.system.optional_packages.find_spec", lambda name: None)
    assert main(["completion", "bash"]) == 1
    assert 'pip install "autosched[completion]"' in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_shells_complete_commands_options_and_files(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("shtab", reason="shtab makes the scripts")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "skip-tuned" in script and "distill" in script
    if shell == "bash":
        assert "_shtab_autosched_bench___log_COMPGEN=_shtab_compgen_files" in script


POLICY = """
from autosched.search.random_search import RandomPolicy

def shuffled(space, scorer, rng, measured):
    return RandomPolicy(space, rng, measured)

number = 3
"""


def test_a_policy_of_the_users_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(POLICY)
    policy = named_policy(f"{path}:shuffled")
    assert callable(policy) and policy.__name__ == "shuffled"
    args = make_parser().parse_args(["tune", "mlp", "--policy", f"{path}:shuffled"])
    assert getattr(tune_options(args)[0].search.policy, "__name__", "") == "shuffled"
    for text, said in (
        (f"{path}:number", "there is no policy 'number'"),
        (f"{path}:absent", "there is no policy 'absent'"),
        ("json:loads", "the policy 'loads' takes other arguments"),
        ("nowhere.py:shuffled", "there is no such file"),
        ("nowhere_at_all:shuffled", "cannot be imported: ModuleNotFoundError"),
    ):
        with pytest.raises(OptionError, match=said):
            named_policy(text)


def test_our_errors_are_one_line_and_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "resnet-18", "--log", "nowhere.jsonl"]) == 1
    assert "nowhere.jsonl" in capsys.readouterr().err
    assert main(["profile", "nowhere.asd"]) == 1
    assert main(["bench", "nowhere.onnx"]) == 1


def test_an_interrupt_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("autosched.cli.summary.open_module", interrupt)
    assert main(["summary", "mlp"]) == 130
    assert capsys.readouterr().err == "autosched: interrupted\n"


@dataclass(frozen=True)
class FakeTuning:
    """Stands in for ``NetworkTuning``."""

    interrupted: bool
    source: Path | None = None

    @property
    def result(self) -> SimpleNamespace:
        return SimpleNamespace(interrupted=self.interrupted, total_s=4e-4)

    def compare(self, repeats: int, told: Callable[[str], None]) -> Comparison:
        told("timing what is tuned")
        rows = (Benchmark("untuned", (2e-3,), 1), Benchmark("tuned", (1e-3,), 1))
        return Comparison(rows, 1e-6)

    def to_json(self) -> dict[str, Any]:
        return {"network": "mlp"}


class FakeSession:
    """Stands in for ``SessionTuning``."""

    def __init__(self, interrupted: bool) -> None:
        self.networks = (FakeTuning(interrupted),)


def test_tune_passes_its_arguments_on_and_compares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: dict[str, Any] = {}

    def tune(networks: list[Any], target: Target, job: TuneJob) -> FakeSession:
        seen.update(network=networks[0].name, threads=target.threads, job=job)
        job.log.check_writable()  # as a run begins
        return FakeSession(False)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("autosched.tuning.networks.tune_networks", tune)
    line = f"tune mlp --trials 9 --seed 3 --threads 1 --json {tmp_path}/r.json --preset quick"
    assert main([*line.split(), "--skip-tuned"]) == 0
    job = seen["job"]
    assert job.skip_tuned is True and seen["network"] == "mlp" and seen["threads"] == 1
    assert job.options.trials == 9 and job.options.budget_s is None and job.options.seed == 3
    assert str(job.log.path) == "mlp.jsonl"
    out = capsys.readouterr().out
    assert "tuned is 1 ms, the estimated total 0.4 ms: " in out
    assert "2.00x" in out and "autosched bench mlp --threads 1 --log mlp.jsonl" in out
    assert json.loads((tmp_path / "r.json").read_text())["rows"][1]["median_ms"] == 1.0
    assert main(["tune", "mlp", "--budget", "1s", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_the_command_after_tuning_has_the_shapes_and_values_of_inputs() -> None:
    line = "tune m.onnx --shape x=1,3 --value sr=16000 --value use=true"
    args = make_parser().parse_args(line.split())
    wanted = "autosched bench m.onnx --shape x=1,3 --value sr=16000 --value use=true --log m.jsonl"
    assert next_command(args, "m.jsonl") == wanted


def test_tune_sets_any_field_of_the_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs: list[TuneJob] = []

    def tune(networks: list[Any], target: Target, job: TuneJob) -> FakeSession:
        jobs.append(job)
        return FakeSession(False)

    monkeypatch.setattr("autosched.tuning.networks.tune_networks", tune)
    line = "tune mlp --trials 9 -q --policy random --set leaders=2 --set improvement=0.01"
    line += " --set search.population=64 --set measure.cache_state=dram_cold"
    line += " --set measure.builders=none --set measure.run_timeout_s=2"
    line += " --set search.bandit.optimism=0 --set search.gbdt.trees=7 --set scheduler.alpha=0.5"
    line += " --set search.learner.draft=False"
    assert main(line.split()) == 0
    (job,) = jobs
    assert job.options.search.bandit == BanditOptions(optimism=0.0)
    assert job.options.scheduler == SchedulerOptions(alpha=0.5)
    assert job.cost_model is None  # the usual one, of these options
    assert job.options.search.gbdt == GbdtOptions(trees=7)
    assert (job.options.leaders, job.options.improvement) == (2, 0.01)
    assert job.options.search.learner.draft is False
    assert (job.options.search.policy, job.options.search.population) == ("random", 64)
    assert job.measure == MeasureOptions(cache_state="dram_cold", run_timeout_s=2.0)
    for wrong, message in (
        ("leders=2", "no option 'leders'"),
        ("leaders", "'leaders' has no value | --set | write leaders=VALUE\n"),
        ("leaders=two", "leaders is 'two' | --set | give a whole number\n"),
        ("measure.builders=x", "measure.builders is 'x' | --set | give a whole number or none\n"),
        ("search.epsilon=3", "between 0 and 1"),
        ("search.finish.hops=0", "hops is 0"),
        ("search.gbdt.leaves=1", "option leaves is 1"),
        ("search.gbdt=3", "no option 'search.gbdt'"),
        ("measure.cache_state=cool", "cache state 'cool'"),
        ("trials=4", "no option 'trials'"),
        ("search.learner.draft=maybe", "search.learner.draft is 'maybe'"),
    ):
        assert main(["tune", "mlp", "--set", wrong]) == 2
        assert message in capsys.readouterr().err
    assert len(jobs) == 1


def test_an_interrupted_tuning_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("autosched.tuning.networks.tune_networks", lambda *_: FakeSession(True))
    assert main(["tune", "mlp", "--trials", "9"]) == 130
    assert "mlp.jsonl; the same command goes on" in capsys.readouterr().err


def test_a_model_is_a_zoo_name_or_a_file(tmp_path: Path) -> None:
    assert open_network("mlp").name == "mlp"
    from autosched.onnx.export import to_onnx

    path = tmp_path / "tiny.onnx"
    path.write_bytes(to_onnx(open_network("mlp").graph).SerializeToString())
    assert open_network(str(path)).name == "tiny"


def test_json_goes_to_a_file_or_to_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(None, {})
    write_json(str(tmp_path / "x.json"), {"a": float(np.float64(1))})
    assert '"a": 1.0' in (tmp_path / "x.json").read_text()
    write_json("-", {"b": 2})
    assert '"b": 2' in capsys.readouterr().out
    with pytest.raises(Exception, match="cannot write JSON"):
        write_json(str(tmp_path), {})


def test_output_fits_any_encoding(log: Path) -> None:
    environment = dict(os.environ, PYTHONPATH=str(Path(__file__).parents[4]))
    environment |= {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    record = make_record("\u00e9" * 16, 1e-3, 4)
    RecordLog(log).append([record])
    command = [sys.executable, "-m", "autosched", "records", "stats", str(log)]
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert b"?" * 16 in done.stdout and b"\x1b" not in done.stdout


def test_python_m_autosched_and_a_closed_pipe() -> None:
    environment = dict(os.environ, PYTHONPATH=str(Path(__file__).parents[4]))
    command = [sys.executable, "-m", "autosched", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.startswith("autosched 0.")

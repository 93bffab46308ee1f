"""``autosched compile``: what it writes, and what it says of records."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.cli.command import named_shape, named_value
from autosched.compilation.network import extract_checked, network_tasks
from autosched.measure.result import Timing
from autosched.onnx.export import to_onnx
from autosched.records.log import RecordLog
from autosched.records.record import Record, record_of
from autosched.system.user_warnings import AutoschedWarning
from autosched.zoo import build
from codegen.gpu.missing import missing_device
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target

TARGET = asd.Target("cpu", threads=1)


def make_record(number: int, seconds: float, target: Target = TARGET) -> Record:
    task = asd.Task.of(network_tasks(extract_checked(build("mlp"), TARGET), TARGET)[number])
    return record_of(task.key, task.space.draft_candidate(), target, Timing((seconds,)))


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return [make_record(number, 1e-3) for number in range(3)]


def write_log(path: Path, records: list[Record]) -> Path:
    RecordLog(path).append(records)
    return path


def test_a_library_or_a_file_or_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "mlp.asd"
    assert main(["compile", "mlp", "--threads", "1", "-o", str(saved)]) == 0
    said = capsys.readouterr()
    assert "3 of 3 tasks have no record and use the schedule" in said.err
    assert said.out.startswith(f"{saved}: ")
    out = tmp_path / "out"
    line = f"compile {saved} -o {out} --name net --save {tmp_path}/again.asd --quiet"
    assert main(line.split()) == 0
    assert capsys.readouterr().out == ""
    weights = 4 * (784 * 512 + 512 * 512 + 512 * 10)
    assert out.with_suffix(".o").stat().st_size > weights
    assert "int net_run(" in out.with_suffix(".h").read_text()
    assert asd.load(tmp_path / "again.asd").name == "mlp"


def test_a_folder_takes_files_named_after_the_model(tmp_path: Path) -> None:
    for folder in (f"{tmp_path}", f"{tmp_path}/new/"):
        assert main(["compile", "mlp", "--effort", "none", "-o", folder, "--quiet"]) == 0
        assert Path(folder, "mlp.o").exists() and Path(folder, "mlp.h").exists()


def test_outputs_that_make_no_sense(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "mlp", "-o", "a.asd", "--save", "b.asd"]) == 2
    assert "both name an .asd file" in capsys.readouterr().err
    for option in ("--save", "-o"):
        assert main(["compile", "mlp", option, ""]) == 2
        assert capsys.readouterr().err.startswith(f"autosched: {option} names no file | give the")
    assert main(["compile", "mlp", "--name", "net"]) == 2
    assert main(["compile", "mlp.asd"]) == 2
    assert "would be overwritten" in capsys.readouterr().err
    assert main(["compile", "mlp.asd", "--threads", "2", "-o", "x"]) == 2
    assert main(["compile", "mlp", "--shape", "data=1,784"]) == 2
    assert "--shape is for .onnx files" in capsys.readouterr().err
    assert main(["compile", "mlp", "--value", "k=1"]) == 2
    assert "--value is for .onnx files" in capsys.readouterr().err


def test_code_for_another_processor(tmp_path: Path) -> None:
    line = f"compile mlp --target cpu-neon --threads 1 -o {tmp_path}/mlp"
    assert main(line.split()) == 0
    assert "neon" in (tmp_path / "mlp.h").read_text()


@pytest.mark.skipif(missing_device(cuda_target()) is None, reason="there is a GPU")
@pytest.mark.parametrize("command", ["tune mlp --trials 1"])
def test_what_is_missing_for_gpus_is_one_line(
    command: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*command.split(), "--target", "cuda:h200"]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len([line for line in errors if line]) == 1
    assert "no CUDA driver" in errors[0] and "--device emulated" in errors[0]
    assert list(tmp_path.iterdir()) == []


def test_open_shapes_are_given(tmp_path: Path) -> None:
    model = to_onnx(build("mlp").graph)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    path = tmp_path / "open.onnx"
    path.write_bytes(model.SerializeToString())
    name = model.graph.input[0].name
    assert main(["compile", str(path), "--shape", f"{name}=3x784", "-o", f"{tmp_path}/x.asd"]) == 0
    assert asd.load(tmp_path / "x.asd").inputs[0].shape == (3, 784)


def test_values_are_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = to_onnx(build("mlp").graph)
    first = model.graph.input[0]
    path, saved = tmp_path / "fixed.onnx", str(tmp_path / "x.asd")
    scale = onnx.helper.make_tensor_value_info("scale", onnx.TensorProto.FLOAT, [])
    model.graph.input.append(scale)
    scaled = onnx.helper.make_node("Mul", [first.name, "scale"], ["scaled"])
    for node in model.graph.node:
        node.input[:] = ["scaled" if name == first.name else name for name in node.input]
    model.graph.node.insert(0, scaled)
    path.write_bytes(model.SerializeToString())
    line = ["compile", str(path), "--effort", "none", "--value"]
    assert main([*line, "scale=0.5", "-o", saved]) == 0
    assert [value.name for value in asd.load(saved).inputs] == [first.name]
    assert main([*line, "scale=true", "-o", saved]) == 1
    assert "value of input 'scale' does not fit: True is no float32" in capsys.readouterr().err
    for command in ("compile", "bench"):
        save = ["--save", f"{tmp_path}/y.asd"] if command == "compile" else []
        assert main([command, saved, "--value", "scale=1", *save]) == 2
        assert "--value is for .onnx files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "value"),
    [("sr=16000", 16000), ("k=-0.5", -0.5), ("a=b=true", True), ("use=false", False)],
)
def test_values_as_texts(text: str, value: float) -> None:
    found = named_value(text)
    assert found == (text.rpartition("=")[0], value) and type(found[1]) is type(value)


@pytest.mark.parametrize("text", ["16000", "=1", "x=", "x=fast", "x=1,2"])
def test_malformed_values(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        named_value(text)


@pytest.mark.parametrize("text", ["1,2,3", "=1,2", "x=1,0", "x=1,-1", "x=a"])
def test_malformed_shapes(text: str) -> None:
    with pytest.raises((argparse.ArgumentTypeError, ValueError)):
        named_shape(text)


def test_a_full_log_is_used_in_silence(
    tmp_path: Path, records: list[Record], capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_log(tmp_path / "log.jsonl", records)
    line = f"compile mlp --threads 1 --log {log} -o {tmp_path}/mlp.asd"
    assert main(line.split()) == 0
    captured = capsys.readouterr()
    assert "warning" not in captured.err  # that it takes long may be said
    assert "no record" not in captured.out
    assert asd.load(tmp_path / "mlp.asd").untuned == ()


def test_without_a_log_the_warning_is_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["compile", "mlp", "--threads", "1", "--effort", "none", "-o", f"{tmp_path}/mlp.asd"]
    assert main(line) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(f"{tmp_path}/mlp.asd: ")
    assert "autosched: warning: 3 of 3 tasks have no record" in captured.err
    assert main([*line, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_tasks_without_a_record_are_named(tmp_path: Path, records: list[Record]) -> None:
    log = write_log(tmp_path / "log.jsonl", records[:2])
    with pytest.warns(AutoschedWarning, match=r"1 of 3 tasks has no record .* \(fc3\)"):
        module = asd.compile(build("mlp"), threads=1, log=log)
    assert [item.layers for item in module.untuned] == [("fc3",)]
    assert "1 of 3 tasks has no record" in module.summary()


def test_records_that_do_not_replay_are_reported(
    tmp_path: Path, records: list[Record], capsys: pytest.CaptureFixture[str]
) -> None:
    broken = replace(
        records[0],
        steps=({"kind": "inline", "version": 1, "stage": "nowhere"},),
        result=Timing((1e-9,)),
    )
    foreign = replace(records[2], target=replace(TARGET, threads=64))
    log = write_log(tmp_path / "log.jsonl", [broken, *records[:2], foreign])
    with log.open("a") as stream:
        stream.write("garbage\n")
    line = f"summary mlp --threads 1 --log {log}"
    assert main(line.split()) == 0
    warnings = capsys.readouterr().err.splitlines()
    assert all(text.startswith("autosched: warning: ") for text in warnings)
    assert "log.jsonl:11: skipped" in warnings[0]
    assert "a record of dense_bias_relu.1 does not replay" in warnings[1]
    assert "1 record is for another number of threads, it is used" in warnings[2]
    assert len(warnings) == 3  # the third task runs with the other machine's schedule
    assert main([*line.split(), "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == ""


def test_pruning_keeps_the_best_that_replays(
    tmp_path: Path, records: list[Record], capsys: pytest.CaptureFixture[str]
) -> None:
    broken = replace(
        records[0],
        steps=({"kind": "inline", "version": 1, "stage": "nowhere"},),
        result=Timing((1e-9,)),
    )
    slower = replace(records[1], result=Timing((5.0,)), decisions={"none": 1})
    foreign = replace(records[1], task="0" * 16)
    log = write_log(tmp_path / "log.jsonl", [broken, *records, slower, foreign] * 3)
    out = tmp_path / "out.jsonl"
    line = f"records prune {log} -o {out} --top 1"
    assert main(line.split()) == 0
    assert len(RecordLog(out).read().records) == 4  # the broken one is the fastest of its task
    assert "4 records, " in capsys.readouterr().out
    assert main([*line.split(), "--model", "mlp"]) == 0
    assert RecordLog(out).read().records == tuple(records)
    warnings = capsys.readouterr().err
    assert "a record of dense_bias_relu.1 does not replay" in warnings
    assert "1 record is of a task that the network does not have" in warnings
    assert out.stat().st_size < 16_000
    assert asd.compile(build("mlp"), threads=1, log=out).untuned == ()


def test_pruning_to_another_network_leaves_the_log_as_it_is(
    tmp_path: Path, records: list[Record], capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_log(tmp_path / "log.jsonl", records)
    before = log.read_bytes()
    assert main(["records", "prune", str(log), "--model", "squeezenet-1.1"]) == 1
    assert "no record is of a task of this network | " in capsys.readouterr().err
    assert log.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == [log.name]


def test_a_log_as_a_data_frame(tmp_path: Path, records: list[Record]) -> None:
    frame = asd.RecordLog(write_log(tmp_path / "log.jsonl", records)).read().to_pandas()
    assert list(frame["task"]) == [record.task for record in records]
    assert list(frame["best_s"]) == [1e-3] * 3


def test_a_precision_is_of_networks_and_of_targets_that_have_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["compile", "mlp", "--target", "cpu-avx2", "--precision", "bf16"]) == 1
    assert "no instruction for products of bfloat16" in capsys.readouterr().err
    line = "compile --workload GMM --args n=1,m=8,k=8 --precision bf16 -o gmm"
    assert main(line.split()) == 2
    assert "--precision is for networks" in capsys.readouterr().err
    assert main(["compile", "mlp", "--precision-bound", "0.1"]) == 2
    assert "are for --precision" in capsys.readouterr().err


def test_a_precision_with_data_and_a_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.npz"
    np.savez(data, data=np.ones(build("mlp").inputs[0].shape, np.float32))
    line = ["compile", "mlp", "--target", "cpu-avx512", "--precision", "fp16", "--effort", "none"]
    line += ["--precision-data", str(data), "--save", str(tmp_path / "mlp.asd")]
    assert main(line) == 0
    said = capsys.readouterr().err
    assert "3 of 3 layers" in said and "on those given" in said
    assert main([*line, "--precision-bound", "0"]) == 0
    assert "0 of 3 layers" in capsys.readouterr().err
    assert main([*line, "--precision-data", str(tmp_path / "none.npz")]) == 1
    assert "cannot read arrays" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*line, "--precision-bound", "-1"])

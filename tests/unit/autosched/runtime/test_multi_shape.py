"""One module for several shapes: it runs what was compiled for those it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Network, Value
from autosched.graph.ops.elementwise import UnaryOp
from autosched.graph.ops.matmul import Dense
from autosched.runtime.errors import AssemblyError, ExportError, InputError
from autosched.runtime.module import Module
from autosched.system.errors import OptionError

BATCHES = (1, 3, 8)


def network(batch: int, columns: int = 12, name: str = "x") -> Network:
    builder = GraphBuilder("small")
    x = builder.input(Value(name, (batch, 20)))
    weights = np.random.default_rng(0).standard_normal((20, columns), dtype=np.float32)
    y = builder.add(Dense(), [x, builder.constant("w", weights)], name="fc")
    return Network("small", builder.finish({"y": builder.add(UnaryOp("relu"), [y], name="r")}))


@pytest.fixture(scope="module")
def module() -> Module:
    return asd.compile([network(batch) for batch in BATCHES], threads=1, effort="none")


def batch_of(size: int) -> dict[str, Any]:
    rng = np.random.default_rng(size)
    return {"x": rng.standard_normal((size, 20), dtype=np.float32)}


def check(module: Module) -> None:
    for size in BATCHES:
        inputs = batch_of(size)
        expected = evaluate(network(size).graph, inputs)["y"]
        for found in (module.run(inputs)["y"], module(inputs["x"])):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_each_batch_runs_its_own_code(module: Module, tmp_path: Path) -> None:
    check(module)
    assert [part.inputs[0].shape[0] for part in module.modules] == list(BATCHES)
    assert len({part.program.arena_bytes for part in module.modules}) > 1 or module.untuned
    module.save(tmp_path / "small.asd")
    for shared in (False, True):
        loaded = asd.load(tmp_path / "small.asd", shared=shared)
        check(loaded)
        assert [part.program for part in loaded.modules] == [p.program for p in module.modules]


def test_other_shapes_are_an_error_that_lists_those_there_are(module: Module) -> None:
    with pytest.raises(InputError, match=r"no code for x=\[2, 20\] .*x=\[1, 20\]; x=\[3, 20\]; x="):
        module.run(batch_of(2))
    with pytest.raises(InputError, match="no array for input 'x'"):
        module.run({})
    with pytest.raises(InputError, match="must be a dict"):
        module.run(np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected float32"):
        module.run({"x": np.zeros((3, 20))})


def test_what_is_timed_is_what_was_given(module: Module) -> None:
    rows = module.profile(batch_of(8), repeats=2).rows
    assert "8x20" in rows[0].shapes or "8, 20" in rows[0].shapes, rows[0].shapes
    assert len(module.benchmark(repeats=2, warmup=0).seconds) == 2
    assert len(module.benchmark(batch_of(3), repeats=2, warmup=0).seconds) == 2
    assert module.summary().count("x=[") == 3 and "x=[8, 20]" in repr(module)
    assert module._repr_html_().count("<table") == 3
    assert len(module.untuned) == 3
    module.pin_threads()


def test_networks_that_do_not_belong_together(module: Module) -> None:
    for other in (network(2, columns=12, name="z"), network(1)):
        with pytest.raises(AssemblyError):
            asd.compile([network(1), other], threads=1, effort="none")
    with pytest.raises(OptionError, match="no network was given"):
        asd.compile([])


def test_a_command_looks_at_the_shapes_that_it_is_told(
    module: Module, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "small.asd")
    module.save(path)
    assert main(["summary", path, "--shape", "x=3,20"]) == 0
    assert "3x20" in capsys.readouterr().out
    assert main(["bench", path, "--repeats", "2", "--shape", "x=8,20", "-q"]) == 0
    for wrong in ("x=2,20", "y=3,20"):
        assert main(["summary", path, "--shape", wrong]) == 2
        assert "not compiled for these shapes" in capsys.readouterr().err
    save = ["--save", str(tmp_path / "other.asd")]
    assert main(["compile", path, "--shape", "x=3,20", *save]) == 2
    assert "--shape is for .onnx files" in capsys.readouterr().err


def test_a_library_has_one_set_of_shapes(
    module: Module, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ExportError, match=r"module\.modules"):
        module.export_library(tmp_path / "small")
    module.save(tmp_path / "small.asd")
    assert main(["compile", str(tmp_path / "small.asd"), "-o", str(tmp_path / "lib")]) == 2
    assert "one set of shapes, the module has 3" in capsys.readouterr().err
    again = tmp_path / "again.asd"
    assert main(["compile", str(tmp_path / "small.asd"), "--save", str(again), "-q"]) == 0
    check(asd.load(again))

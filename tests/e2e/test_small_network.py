"""A small network: tuned with a handful of trials, compiled, saved, and run in a fresh process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Network, Value
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.ops.matmul import Dense
from autosched.graph.ops.pooling import GlobalPool, Pool
from autosched.graph.ops.shape import Reshape
from autosched.records.log import RecordLog
from autosched.tuning.options import QUICK
from sketch.oracle.expected import relative_error

ROOT = Path(asd.__file__).parent.parent
TRIALS = 8


def make_network() -> Network:
    """A residual block between a strided convolution and a classifier, NCHW as a model has it."""
    rng = np.random.default_rng(1)
    builder = GraphBuilder("small")

    def weight(name: str, *shape: int) -> str:
        scale = np.sqrt(np.prod(shape[1:]))
        return builder.constant(name, (rng.standard_normal(shape) / scale).astype("float32"))

    value = builder.input(Value("image", (1, 3, 17, 17)))
    kernel = weight("stem.weight", 16, 3, 3, 3)
    value = builder.add(Conv((2, 2), (1, 1, 1, 1)), [value, kernel], name="stem")
    skip = builder.add(UnaryOp("relu"), [value], name="stem.relu")
    kernel = weight("block.weight", 16, 16, 3, 3)
    value = builder.add(Conv((1, 1), (1, 1, 1, 1)), [skip, kernel], name="block")
    value = builder.add(BinaryOp("add"), [value, skip], name="block.add")
    value = builder.add(UnaryOp("relu"), [value], name="block.relu")
    value = builder.add(Pool("max", (2, 2), (2, 2)), [value], name="pool")
    value = builder.add(GlobalPool("avg"), [value], name="mean")
    value = builder.add(Reshape((1, 16)), [value], name="flat")
    dense = builder.constant("fc.weight", rng.standard_normal((16, 10)).astype("float32"))
    value = builder.add(Dense(), [value, dense], name="fc")
    return Network("small", builder.finish({"scores": value}))


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_tune_compile_save_and_load(tmp_path: Path, threads: int) -> None:
    network, log = make_network(), tmp_path / "small.jsonl"
    target = asd.Target("cpu", threads=threads)
    first = asd.tune(network, target, trials=TRIALS, log=log, options=QUICK, quiet=True)
    assert first.result.trials >= TRIALS
    resumed = asd.tune(network, target, trials=TRIALS + 4, log=log, options=QUICK, quiet=True)
    assert resumed.result.trials < TRIALS
    assert len(resumed.records) == len(RecordLog(log).read().records)

    module = asd.compile(network, target, log)
    schedules = [step.info.schedule for step in module.program.steps]
    assert "record" in schedules
    inputs = module.random_inputs(seed=2)
    outputs = module.run(inputs)
    expected = evaluate(network.graph, inputs)["scores"]
    assert relative_error(outputs["scores"], expected) < 1e-5

    module.save(tmp_path / "small.asd")
    np.savez(tmp_path / "data.npz", inputs=inputs["image"], outputs=outputs["scores"])
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import numpy as np, autosched as asd\n"
        "module, data = asd.load('small.asd'), np.load('data.npz')\n"
        "outputs = module.run({'image': data['inputs']})\n"
        "assert np.array_equal(outputs['scores'], data['outputs'])\n"
        "print(module.profile(repeats=2))\n"
        "assert not {'lightgbm', 'sklearn', 'onnx', 'torch'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "stem" in done.stdout and "(total)" in done.stdout

"""Networks in bfloat16: what is said of errors, what stays as it is, and what runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import autosched as asd
from autosched.compilation.precision import BOUND, in_precision
from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import GraphError
from autosched.graph.ir import Network, Value
from autosched.graph.ops.elementwise import UnaryOp
from autosched.graph.ops.matmul import MatMul
from autosched.system.errors import OptionError
from autosched.system.user_warnings import AutoschedWarning
from codegen.host import cpu_target, host_target
from sketch.errors import TargetError
from sketch.target.units import units_of
from tests.support.units import on_units, with_feature

HERE = host_target(1)
HAS_UNIT = any(unit.lhs == "bfloat16" for unit in units_of(HERE))
PLAIN, WITH_UNIT = cpu_target("cpu-avx512", 1), with_feature("cpu-avx512", "avx512bf16")


def two_layers(cancelling: bool = False) -> Network:
    """``relu(x @ A) @ B``; cancelling: the columns of A add up to almost nothing."""
    rng = np.random.default_rng(0)
    first = rng.standard_normal((32, 24)).astype(np.float32)
    if cancelling:
        first = np.repeat(first[:16], 2, axis=0) * np.tile([[1.0], [-1.00001]], (16, 1))
    builder = GraphBuilder("two")
    value = builder.input(Value("data", (4, 32)))
    for name, array in (("first", first), ("second", rng.standard_normal((24, 8)))):
        factor = builder.constant(f"{name}.weight", array.astype(np.float32))
        value = builder.add(MatMul(), (value, factor), name=name)
        value = builder.add(UnaryOp("relu"), (value,)) if name == "first" else value
    return Network("two", builder.finish({"out": value}))


def test_layers_and_errors_are_said() -> None:
    reduction = asd.reduce_precision(two_layers())
    assert reduction.network.in_bfloat16 == {"first", "second"}
    assert reduction.kept == () and reduction.given is None
    assert all(0 < error < BOUND for error in reduction.layers.values())
    assert 1e-4 < reduction.random["out"] < 0.02
    assert str(reduction).startswith("2 of 2 layers of two are in bfloat16; outputs differ by ")


def test_a_layer_that_cancels_on_given_data_stays() -> None:
    pairs = np.repeat(np.random.default_rng(1).standard_normal((4, 16)), 2, axis=1)
    data = {"data": pairs.astype(np.float32)}
    assert asd.reduce_precision(two_layers(cancelling=True)).kept == ()
    reduction = asd.reduce_precision(two_layers(cancelling=True), data)
    assert reduction.kept == ("first",) and reduction.layers["first"] > 0.1
    assert reduction.given is not None and reduction.given["out"] < BOUND
    assert "keep first (" in str(reduction) and str(reduction).endswith("on those given")
    everything = asd.reduce_precision(two_layers(cancelling=True), data, bound=1e9)
    assert everything.given is not None and everything.given["out"] > 0.1


def test_a_network_without_layers() -> None:
    builder = GraphBuilder("plain")
    value = builder.input(Value("data", (4, 4)))
    network = Network("plain", builder.finish({"out": builder.add(UnaryOp("relu"), (value,))}))
    assert str(asd.reduce_precision(network)) == (
        "plain has no layer that can be computed in bfloat16"
    )


def test_what_is_refused() -> None:
    with pytest.raises(GraphError, match="give"):
        asd.reduce_precision(two_layers(), {"other": np.zeros((4, 32), np.float32)})
    with pytest.raises(OptionError, match="bound"):
        asd.reduce_precision(two_layers(), bound=-1)
    with pytest.raises(OptionError, match=r"'net\.onnx' is no network"):
        asd.reduce_precision("net.onnx")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="precision 'int3' is unknown"):
        asd.compile(two_layers(), precision="int3")  # type: ignore[arg-type]
    with pytest.raises(TargetError, match="no instruction for products of bfloat16"):
        asd.compile(two_layers(), PLAIN, precision="bf16")
    networks = [two_layers()]
    assert in_precision(networks, "as written", PLAIN) is networks


def test_compiled_for_a_machine_with_the_unit(tmp_path) -> None:
    """Which need not be this one."""
    with pytest.warns(AutoschedWarning, match="2 of 2 layers of two are in bfloat16"):
        module = asd.compile(two_layers(), WITH_UNIT, effort="none", check=False, precision="bf16")
    module.save(tmp_path / "two.asd")
    network = asd.reduce_precision(two_layers()).network
    sketches = [on_units(task.dag, WITH_UNIT) for task in asd.extract_tasks(network, WITH_UNIT)]
    assert sum(map(bool, sketches)) == 2


def test_a_machine_without_the_unit_runs_plain_kernels() -> None:
    network = asd.reduce_precision(two_layers()).network
    plain = replace(HERE, features=HERE.features.replace("+avx512bf16", "-avx512bf16"))
    data = {"data": np.random.default_rng(2).standard_normal((4, 32)).astype(np.float32)}
    exact = asd.compile(two_layers(), HERE, effort="none").run(data)["out"]
    found = asd.compile(network, plain, effort="none").run(data)["out"]
    assert 0 < np.abs(found - exact).max() < 0.02 * np.abs(exact).max()


@pytest.mark.slow
@pytest.mark.skipif(not HAS_UNIT, reason="this CPU multiplies no bfloat16")
def test_tuned_and_compiled(tmp_path) -> None:
    log = tmp_path / "log.jsonl"
    with pytest.warns(AutoschedWarning, match="in bfloat16"):
        tuning = asd.tune(two_layers(), HERE, trials=2, log=log, quiet=True, precision="bf16")
    data = {"data": np.random.default_rng(2).standard_normal((4, 32)).astype(np.float32)}
    exact = asd.compile(two_layers(), HERE, effort="none").run(data)["out"]
    found = tuning.compile().run(data)["out"]
    assert 0 < np.abs(found - exact).max() < 0.02 * np.abs(exact).max()

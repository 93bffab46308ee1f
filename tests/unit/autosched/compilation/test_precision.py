"""Networks in narrower precisions: what is said of errors, what stays as it is, and what runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import autosched as asd
from autosched.compilation.precision import in_precision
from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import GraphError
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Graph, Network, Value
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import UnaryOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.optimize import optimize
from autosched.graph.precision import BOUNDS, Precision, PrecisionOptions, ReducedLayers
from autosched.graph.reduced import with_reduced
from autosched.system.errors import OptionError
from autosched.system.user_warnings import AutoschedWarning
from codegen.host import cpu_target, host_target
from sketch.errors import TargetError
from sketch.target.units import units_of
from tests.support.units import on_units, with_feature

BOUND = BOUNDS["bf16"]
HERE = host_target(1)
WITHOUT_UNITS = HERE.features
for unit in ("avx512bf16", "avx512vnni", "avxvnni"):
    WITHOUT_UNITS = WITHOUT_UNITS.replace(f"+{unit}", f"-{unit}")
HAS_UNIT = any(unit.lhs == "bfloat16" for unit in units_of(HERE))
PLAIN = cpu_target("cpu-avx512", 1)
WITH_UNIT = with_feature("cpu-avx512", "avx512bf16", "avx512vnni")
REDUCED: tuple[Precision, ...] = ("bf16", "fp16", "int8-dynamic")


def two_layers(cancelling: bool = False, rows: int = 4) -> Network:
    """``relu(x @ A) @ B``; cancelling: the columns of A add up to almost nothing."""
    rng = np.random.default_rng(0)
    first = rng.standard_normal((32, 24)).astype(np.float32)
    if cancelling:
        first = np.repeat(first[:16], 2, axis=0) * np.tile([[1.0], [-1.00001]], (16, 1))
    builder = GraphBuilder("two")
    value = builder.input(Value("data", (rows, 32)))
    for name, array in (("first", first), ("second", rng.standard_normal((24, 8)))):
        factor = builder.constant(f"{name}.weight", array.astype(np.float32))
        value = builder.add(MatMul(), (value, factor), name=name)
        value = builder.add(UnaryOp("relu"), (value,)) if name == "first" else value
    return Network("two", builder.finish({"out": value}))


@pytest.mark.parametrize(
    ("precision", "words", "least", "most"),
    [
        ("bf16", "bfloat16", 1e-4, 0.02),
        ("fp16", "float16", 1e-5, 0.002),
        ("int8-dynamic", "dynamic int8", 1e-3, 0.05),
    ],
)
def test_layers_and_errors_are_said(
    precision: Precision, words: str, least: float, most: float
) -> None:
    reduction = asd.reduce_precision(two_layers(), precision=precision)
    assert reduction.network.reduced == ReducedLayers(precision, frozenset({"first", "second"}))
    assert reduction.kept == () and reduction.given is None
    assert all(0 < error < BOUNDS[precision] for error in reduction.layers.values())
    assert least < reduction.random["out"] < most
    assert str(reduction).startswith(f"2 of 2 layers of two are in {words}; outputs differ by ")


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


def test_values_that_cancel_beside_large_queries_stay() -> None:
    """Queries, keys and values are columns of one product; each is measured by its own numbers."""
    rng, builder = np.random.default_rng(0), GraphBuilder("attention")
    x = builder.input(Value("x", (6, 16)))
    made = {}
    for name in "qkv":
        weight = rng.standard_normal((16, 8))
        if name == "v":
            weight = np.repeat(weight[:8], 2, axis=0) * np.tile([[1.0], [-1.00001]], (8, 1))
        constant = builder.constant(f"{name}.w", weight.astype(np.float32))
        made[name] = builder.add(MatMul(), (x, constant), name=name)
    scores = builder.add(Einsum(("ik", "jk"), "ij"), (made["q"], made["k"]))
    network = Network(
        "attention", builder.finish({"y": builder.add(MatMul(), (scores, made["v"]))})
    )
    pairs = np.repeat(rng.standard_normal((6, 8)), 2, axis=1).astype(np.float32)
    reduction = asd.reduce_precision(network, {"x": pairs})
    assert len(optimize(network.graph).consumers["x"]) == 1
    assert reduction.given is not None and reduction.given["y"] < 2 * BOUND


def test_a_product_that_is_one_number_is_measured() -> None:
    builder = GraphBuilder("total")
    x, y = (builder.input(Value(name, (8, 8))) for name in "xy")
    total = builder.add(Einsum(("ij", "jk"), ""), (x, y), name="total")
    network = Network("total", builder.finish({"total": total}))
    assert list(asd.reduce_precision(network).layers) == ["total"]


def outlier() -> dict[str, np.ndarray]:
    """One number of each row is so large that bytes have no steps for the others."""
    data = np.random.default_rng(1).standard_normal((4, 32)).astype(np.float32)
    data[:, 3] = 1e4
    return {"data": data}


def small_factor(network: Network) -> Network:
    """What is far away in the data hardly counts in the first layer."""
    constants = dict(network.graph.constants)
    constants["first.weight"] = constants["first.weight"].copy()
    constants["first.weight"][3] = 1e-4
    graph = network.graph
    changed = Graph(graph.name, graph.inputs, graph.results, graph.nodes, constants)
    return replace(network, graph=changed)


def test_data_and_bound_of_the_options_decide_what_stays() -> None:
    network = small_factor(two_layers())
    given = PrecisionOptions("int8-dynamic", outlier())
    with pytest.warns(AutoschedWarning, match=r"1 of 2 layers .* keep first \(.* those given"):
        (found,) = in_precision([network], given, WITH_UNIT)
    assert found.reduced.names == {"second"}
    with pytest.warns(AutoschedWarning, match="0 of 2 layers"):
        (found,) = in_precision([network], replace(given, bound=0.0), WITH_UNIT)
    assert found.reduced.names == frozenset()
    with pytest.warns(AutoschedWarning, match="2 of 2 layers"):
        in_precision([network], PrecisionOptions("int8-dynamic"), WITH_UNIT)


def test_of_several_samples_the_worst_counts() -> None:
    network = small_factor(two_layers())
    plain = {"data": np.ones((4, 32), np.float32)}
    both = asd.reduce_precision(network, [plain, outlier()], np.inf, "int8-dynamic")
    each = [asd.reduce_precision(network, d, np.inf, "int8-dynamic") for d in (plain, outlier())]
    assert both.given is not None
    assert both.given["out"] == max(one.given["out"] for one in each if one.given is not None)


def test_data_are_of_the_network_whose_shapes_they_have() -> None:
    networks = [two_layers(rows=rows) for rows in (4, 1)]
    with pytest.warns(AutoschedWarning) as said:
        in_precision(networks, PrecisionOptions("int8-dynamic", outlier()), WITH_UNIT)
    assert ["those given" in str(line.message) for line in said] == [True, False]
    with pytest.raises(GraphError, match="shape"):
        in_precision(networks[1:], PrecisionOptions("fp16", outlier()), WITH_UNIT)


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
    with pytest.raises(OptionError, match="are no inputs"):
        asd.reduce_precision(two_layers(), np.zeros((4, 32)))  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="bound"):
        asd.reduce_precision(two_layers(), bound=-1)
    with pytest.raises(OptionError, match=r"'net\.onnx' is no network"):
        asd.reduce_precision("net.onnx")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="precision 'int3' is unknown"):
        asd.compile(two_layers(), precision="int3")  # type: ignore[arg-type]
    with pytest.raises(TargetError, match="no instruction for products of bfloat16"):
        asd.compile(two_layers(), PLAIN, precision="bf16")
    with pytest.raises(TargetError, match="no instruction for products of uint8"):
        asd.compile(two_layers(), PLAIN, precision="int8-dynamic")
    with pytest.raises(TargetError, match="no instruction that reads float16"):
        asd.compile(two_layers(), cpu_target("cpu-sse2", 1), precision="fp16")
    with pytest.raises(OptionError, match="precision 'int3' is unknown"):
        asd.reduce_precision(two_layers(), precision="int3")  # type: ignore[arg-type]
    networks = [two_layers()]
    assert in_precision(networks, "as written", PLAIN) is networks


@pytest.mark.parametrize("precision", ["bf16", "int8-dynamic", "tf32"])
def test_a_gpu_without_the_unit_is_told_of_gpus_that_have_it(precision: Precision) -> None:
    with pytest.raises(TargetError, match="no instruction for products") as caught:
        asd.compile(two_layers(), "cuda:sm_75", precision=precision)
    assert "GPU of sm_80 or later" in str(caught.value)


@pytest.mark.parametrize(("precision", "units"), [("bf16", 2), ("fp16", 0), ("int8-dynamic", 2)])
def test_compiled_for_a_machine_with_the_unit(precision: Precision, units: int, tmp_path) -> None:
    """Which need not be this one."""
    with pytest.warns(AutoschedWarning, match="2 of 2 layers of two are in"):
        module = asd.compile(
            two_layers(), WITH_UNIT, effort="none", check=False, precision=precision
        )
    module.save(tmp_path / "two.asd")
    network = asd.reduce_precision(two_layers(), precision=precision).network
    sketches = [on_units(task.dag, WITH_UNIT) for task in asd.extract_tasks(network, WITH_UNIT)]
    assert sum(map(bool, sketches)) == units


def windows() -> Network:
    """A picture through a convolution, one of each channel by itself, and one of single points."""
    rng = np.random.default_rng(0)
    builder = GraphBuilder("windows")
    value = builder.input(Value("data", (2, 3, 9, 9)))
    for name, shape, groups in (
        ("a", (8, 3, 3, 3), 1),
        ("b", (8, 1, 3, 3), 8),
        ("c", (5, 8, 1, 1), 1),
    ):
        weight = builder.constant(f"{name}.weight", rng.standard_normal(shape).astype(np.float32))
        bias = builder.constant(f"{name}.bias", rng.standard_normal(shape[0]).astype(np.float32))
        side = shape[-1] // 2
        op = Conv(padding=(side,) * 4, groups=groups)
        value = builder.add(op, (value, weight, bias), name=name)
        value = builder.add(UnaryOp("relu"), (value,)) if name != "c" else value
    return Network("windows", builder.finish({"out": value}))


@pytest.mark.parametrize(
    ("exact_network", "features"),
    [
        pytest.param(two_layers(), HERE.features, id="products"),
        pytest.param(two_layers(), WITHOUT_UNITS, id="products-plain", marks=pytest.mark.slow),
        pytest.param(windows(), HERE.features, id="windows", marks=pytest.mark.slow),
        pytest.param(windows(), WITHOUT_UNITS, id="windows-plain"),
    ],
)
@pytest.mark.parametrize("precision", REDUCED)
def test_results_are_those_of_the_reduced_network(
    exact_network: Network, precision: Precision, features: str
) -> None:
    """A machine without a unit runs plain kernels."""
    network = asd.reduce_precision(exact_network, precision=precision).network
    assert network.reduced.names
    (given,) = network.inputs
    data = {"data": np.random.default_rng(2).standard_normal(given.shape).astype(np.float32)}
    graph = with_reduced(optimize(network.graph), network.reduced)
    wanted, exact = evaluate(graph, data)["out"], evaluate(exact_network.graph, data)["out"]
    found = asd.compile(network, replace(HERE, features=features), effort="none").run(data)["out"]
    size = np.abs(exact).max()
    assert np.abs(found - wanted).max() < 0.2 * np.abs(wanted - exact).max() < 0.01 * size


@pytest.mark.parametrize("number", [np.inf, pytest.param(np.nan, marks=pytest.mark.slow)])
@pytest.mark.parametrize("precision", REDUCED)
def test_what_is_no_number_stays_in_its_row(precision: Precision, number: float) -> None:
    network = asd.reduce_precision(two_layers(), precision=precision).network
    data = np.random.default_rng(2).standard_normal((4, 32)).astype(np.float32)
    data[1, 5] = number
    found = asd.compile(network, HERE, effort="none").run({"data": data})["out"]
    assert not np.isfinite(found[1]).any() and np.isfinite(found[[0, 2, 3]]).all()


@pytest.mark.slow
@pytest.mark.skipif(not HAS_UNIT, reason="this CPU multiplies no bfloat16")
def test_tuned_and_compiled(tmp_path) -> None:
    log = tmp_path / "log.jsonl"
    data = {"data": np.random.default_rng(2).standard_normal((4, 32)).astype(np.float32)}
    given = PrecisionOptions("bf16", data)
    with pytest.warns(AutoschedWarning, match="in bfloat16; .* on those given"):
        tuning = asd.tune(two_layers(), HERE, trials=2, log=log, quiet=True, precision=given)
    exact = asd.compile(two_layers(), HERE, effort="none").run(data)["out"]
    found = tuning.compile().run(data)["out"]
    assert 0 < np.abs(found - exact).max() < 0.02 * np.abs(exact).max()

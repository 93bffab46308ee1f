"""Graphs of ATen operators that become networks without ONNX in between."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import pytest

import autosched as asd
from autosched.graph.errors import ModelImportError
from autosched.graph.ir import Network
from autosched.network_source import from_onnx
from autosched.torch_frontend import bound_graph, compiled_graph, export
from autosched.torch_frontend.aten import NotTakenError
from autosched.torch_frontend.aten.table import CONVERTERS
from autosched.torch_frontend.compiled_graph import CompiledGraph
from autosched.torch_frontend.options import BackendOptions
from tests.support.aten_networks import assert_equal, network_of, reference, traced
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
functional = lazily("torch.nn.functional")
calls = lazily("tests.support.aten_calls")
torch_backend = lazily("autosched.torch_frontend.backend")
modules = lazily("tests.support.torch_modules")
TABLES: Final = (
    "activation", "elementwise", "fourier", "indexing", "movement", "norm", "products", "sampling",
    "scattering", "views", "windows",
)  # fmt: skip
pytestmark = pytest.mark.usefixtures("torchlib")


def _operators(graph: Any) -> Iterator[str]:
    return (str(node.target) for node in graph.graph.nodes if node.op == "call_function")


def _qualified(name: str) -> str:
    """Names of torch's operators are given without their namespace."""
    return name if name.startswith("autosched.") else f"aten.{name}"


@pytest.mark.parametrize("table", TABLES)
def test_operators_compute_what_torch_computes(table: str) -> None:
    for name, (function, args) in calls.TABLES[table].items():
        graph = traced(function, args)
        assert _qualified(name) in _operators(graph), name
        with torch.no_grad():
            assert_equal(reference(network_of(graph, args), args), graph(*args), name)


def test_every_converter_has_a_call() -> None:
    names = [_qualified(name) for table in calls.TABLES.values() for name in table]
    assert sorted(names) == sorted(CONVERTERS)


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_networks_are_those_of_the_way_through_onnx(table: str) -> None:
    """Many calls in one graph: an export takes half a second."""
    calls_of = [c for name, c in calls.TABLES[table].items() if name not in calls.NOT_EXPORTED]
    for start in range(0, len(calls_of), 12):
        _assert_same_network(calls_of[start : start + 12], table)


def _assert_same_network(chosen: Sequence[Any], table: str) -> None:
    args = [arg for _, own in chosen for arg in own]

    def every(*given: Any) -> tuple[Any, ...]:
        left, results = iter(given), []
        for function, own in chosen:
            result = function(*islice(left, len(own)))
            results.extend(result if isinstance(result, tuple | list) else [result])
        return tuple(results)

    graph = traced(every, args)
    computed = range(len(graph(*args)))
    bound = bound_graph.bind_constants(graph, args, range(len(args)), computed)
    exported = from_onnx(export.exported(bound, args))
    direct = network_of(graph, args)
    assert [v.type for v in direct.outputs] == [v.type for v in exported.outputs]
    assert_equal(reference(direct, args), reference(exported, args), table)


@pytest.mark.slow
def test_tasks_are_those_of_the_way_through_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that was tuned for one serves the other."""

    class Mixed(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.stem = modules.Residual()
            self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.head = torch.nn.Linear(8, 5)

        def forward(self, x: Any) -> Any:
            maps = functional.max_pool2d(functional.silu(self.stem(x)), 2)
            rows = self.layer(maps.flatten(2).transpose(1, 2))
            return self.head(functional.gelu(rows).mean(1)).softmax(-1)

    def captured(network: Network, *_: Any) -> Any:
        networks.append(network)
        raise ModelImportError("it was seen")

    networks: list[Network] = []
    monkeypatch.setattr(compiled_graph, "network_module", captured)
    torch.manual_seed(0)
    torch._dynamo.reset()
    module = _without_zeros(Mixed().eval())
    with torch.no_grad():
        torch.compile(module, backend=torch_backend.backend, options={"cache": False})(
            torch.randn(1, 8, 8, 8)
        )
    direct, exported = (
        sorted((task.key, task.weight) for task in asd.extract_tasks(network))
        for network in networks
    )
    assert direct == exported


def _without_zeros(module: Any) -> Any:
    """The exporter drops what is zero."""
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point():
                tensor.uniform_(0.1, 0.6)
    return module


def test_shapes_may_be_open() -> None:
    def function(x: Any) -> Any:
        rows = x.shape[0]
        return x.view(rows // 2, 2, -1).sum(1) + torch.arange(rows // 2)[:, None]

    graph = traced(function, (torch.randn(4, 3),), "symbolic")
    for rows in (2, 6):
        args = (torch.randn(rows, 3),)
        assert_equal(reference(network_of(graph, args), args), function(*args)[None], "open")


def test_what_is_known_is_computed_at_once() -> None:
    """Masks, positions, weights in another order."""

    def function(x: Any) -> Any:
        positions, mask = torch.arange(4).float().cumsum(0), torch.ones(4, 4).tril() == 0
        return (x + positions).masked_fill(mask, 0) + torch.linalg.inv(torch.eye(4) * 2)

    args = (torch.randn(4, 4),)
    network = network_of(traced(function, args), args)
    assert [node.op.kind for node in network.graph.nodes] == ["add", "where", "add"]
    assert_equal(reference(network, args), [function(*args)], "known")


def test_indices_of_several_dtypes_are_taken_in_pairs() -> None:
    def function(x: Any, i: Any, j: Any) -> Any:
        return x[i, :, j]

    args = torch.randn(4, 5, 3), torch.tensor([0, -1], dtype=torch.int32), torch.tensor([[2], [1]])
    graph = traced(function, args)
    assert_equal(reference(network_of(graph, args), args), graph(*args), "pairs")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: functional.softplus(x.std(-1)) + functional.celu(x[..., 0]).expm1(),
        lambda x: torch.baddbmm(x, x, x[:, :3], beta=0.5) + torch.ones(3)[:2].max(),
    ],
)
def test_operators_without_a_converter_are_taken_apart_as_torch_does(function: Any) -> None:
    args = (torch.randn(4, 4, 3),)
    graph = traced(function, args)
    assert_equal(reference(network_of(graph, args), args), graph(*args), "parts")


@pytest.mark.parametrize(
    ("reason", "function"),
    [
        ("it changes its arguments", lambda x: x.add_(1) * 2),
        ("random", lambda x: x + torch.rand(3)),
        ("no converter", lambda x: torch.linalg.inv(x[:, :3])),
        ("without a batch", lambda x: functional.adaptive_avg_pool2d(x, (2, 1))),
        ("by truth values", lambda x: x[torch.tensor([True, False, True, True])]),
        ("NaN in a constant", lambda x: x + torch.tensor([1.0, float("nan"), 1.0])),
        ("nobody has computed", lambda x: torch.native_layer_norm(x, (3,), None, None, 1e-5)[1]),
        ("not its own", lambda x: x[:2].clone().as_strided((5,), (7,))),
        ("divisor", lambda x: functional.avg_pool2d(x[None], 2, divisor_override=3)),
        ("several dtypes", lambda x: torch.cat([x, x.double()])),
        ("may not fit", lambda x: x.long()),
        ("another norm", lambda x: x.norm(3)),
        ("a scaled sum of truth", lambda x: torch.add(x > 0, x < 1, alpha=False)),
        ("padding that cuts", lambda x: functional.pad(x, (-1, 0))),
    ],
)
def test_other_uses_are_not_taken(reason: str, function: Any) -> None:
    args = (torch.randn(4, 4, 3),)
    graph = traced(function, args)
    with pytest.raises(NotTakenError, match=reason):
        network_of(graph, args)


def test_what_is_not_taken_goes_through_onnx(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """So does a graph whose results differ."""
    args = (torch.randn(3, 4),)
    graph = traced(torch.tanh, args)
    options = BackendOptions(cache=False, effort="none")
    with caplog.at_level(logging.DEBUG, compiled_graph.LOG.name):
        monkeypatch.setitem(CONVERTERS, "aten.tanh.default", CONVERTERS["aten.sin.default"])
        assert_equal(CompiledGraph(graph, frozenset(), options, "1")(*args), graph(*args), "")
        monkeypatch.delitem(CONVERTERS, "aten.tanh.default")
        other = CompiledGraph(graph, frozenset(), options, "2")
        assert_equal(other(*args), graph(*args), "")
    lines = [record.getMessage() for record in caplog.records if "ONNX" in record.msg]
    assert lines == [
        "graph 1 is taken through ONNX: output 0 is not what torch computes",
        "graph 2 is taken through ONNX: tanh (aten.tanh.default): no converter",
    ]


class _Ranker:
    """Parameters that two layers share, buffers, constants, a mask, results that are inputs."""

    @staticmethod
    def make() -> Any:
        class Ranker(torch.nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.words = torch.nn.Embedding(9, 16)
                self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
                self.head = torch.nn.Linear(16, 9, bias=False)
                self.head.weight = self.words.weight
                self.register_buffer("places", torch.arange(5.0)[:, None], persistent=False)

            def forward(self, words: Any, mask: Any = None, scale: float = 2.0) -> Any:
                rows = self.words(words) + self.places * torch.tensor([0.1])
                rows = self.layer(rows, src_key_padding_mask=mask).mul_(scale)
                return {"logits": self.head(rows), "words": words, "again": (words, rows)}

        return Ranker().eval()


def _no_onnx(*_: Any) -> None:
    raise AssertionError("it went through ONNX")


def test_from_torch_needs_no_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_onnx_model", _no_onnx)
    torch.manual_seed(0)
    module = _Ranker.make()
    words, mask = torch.randint(0, 9, (2, 5)), torch.zeros(2, 5, dtype=torch.bool)
    mask[1, 3:] = True
    for given in ({"words": words}, {"words": words, "mask": mask}, (words, mask)):
        network = asd.from_torch(module, given)
        names = list(given) if isinstance(given, dict) else ["words", "mask"]
        assert [value.name for value in network.inputs] == names
        assert len({value.name for value in (*network.inputs, *network.outputs)}) == len(names) + 4
        args = list(given.values()) if isinstance(given, dict) else list(given)
        with torch.no_grad():
            theirs = module(**given) if isinstance(given, dict) else module(*given)
        expected = [theirs["logits"], theirs["words"], *theirs["again"]]
        assert_equal(reference(network, args), expected, "ranker")


class _Pair(NamedTuple):
    first: Any
    second: Any


class _Parts:
    """A module's result of several kinds of parts; made here, when torch is there."""

    @staticmethod
    def make() -> Any:
        class Parts(torch.nn.Module):
            def forward(self, x: Any) -> Any:
                rows = x.relu(), [x + 1, x - 1]
                return {"y": x * 2, "top": rows, "pair": _Pair(x * 3, x * 4), "x": x * 5}

        return Parts()


_PARTS: Final = ("y", "top.0", "top.1.0", "top.1.1", "pair.first", "pair.second", "x_result")


@pytest.mark.parametrize("by_onnx", [False, True])
def test_outputs_are_called_like_the_parts_of_the_result(
    by_onnx: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*((export, "network_of_program", _not_taken) if by_onnx else
                          (export, "_onnx_model", _no_onnx)))  # fmt: skip
    x = torch.randn(2, 3)
    network = asd.from_torch(_Parts.make(), x)
    assert tuple(value.name for value in network.outputs) == _PARTS
    found = asd.compile(network, effort="none", check=False).run({"x": x.numpy()})
    assert tuple(found) == _PARTS
    torch.testing.assert_close(torch.from_numpy(found["pair.second"]), x * 4)


@pytest.mark.slow
def test_from_torch_gives_the_tasks_of_the_way_through_onnx(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    example = torch.randn(2, 8, 8, 8)
    encoder = torch.nn.Sequential(
        torch.nn.Embedding(9, 16),
        torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
        torch.nn.Linear(16, 9),
    )
    chosen: list[tuple[Any, Any]] = [
        (_without_zeros(modules.Residual().eval()), example),
        (
            _without_zeros(modules.Small().eval()),
            {"image": torch.randn(1, 3, 8, 8), "scale": torch.randn(1)},
        ),
        (_without_zeros(encoder.eval()), torch.randint(0, 9, (2, 5))),
    ]
    direct = [asd.from_torch(module, given) for module, given in chosen]
    with caplog.at_level(logging.DEBUG, export.LOG.name):
        monkeypatch.setattr(export, "network_of_program", _not_taken)
        exported = [asd.from_torch(module, given) for module, given in chosen]
    assert len([record for record in caplog.records if "ONNX" in record.msg]) == len(chosen)
    for one, other in zip(direct, exported, strict=True):
        assert [v.name for v in one.inputs] == [v.name for v in other.inputs]
        assert [v.type for v in one.outputs] == [v.type for v in other.outputs]
        ours, theirs = (
            sorted((task.key, task.weight) for task in asd.extract_tasks(network))
            for network in (one, other)
        )
        assert ours == theirs


def _not_taken(_: Any) -> None:
    raise NotTakenError("no converter")


def test_what_has_no_converter_comes_by_onnx() -> None:
    function = modules.Function(modules.scattered)
    x = torch.randn(4, 4, 3)
    network = asd.from_torch(function, x)
    assert_equal(reference(network, [x]), [function(x)], "scatter")

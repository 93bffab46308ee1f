"""PyTorch modules as networks, and ``torch.compile`` with autosched as its backend."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import autosched
from autosched.graph.errors import ModelImportError
from autosched.torch_frontend import compiled_graph
from autosched.torch_frontend.compiled_graph import CompiledGraph
from autosched.torch_frontend.constants_watch import ConstantsWatch
from autosched.torch_frontend.options import BackendOptions, backend_options
from sketch.errors import AutoschedError
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
modules = lazily("tests.support.torch_modules")
nn = lazily("torch.nn")
backend_module = lazily("autosched.torch_frontend.backend")
pytestmark = pytest.mark.usefixtures("torchlib")

COMPILED: list[Any] = []


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No compiled graphs of other tests; each native run is noted, but for the first comparison."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    COMPILED.clear()
    original = CompiledGraph._run
    compare = CompiledGraph._check_results

    def noted(self: Any, *args: Any) -> Any:
        COMPILED.append(self)
        return original(self, *args)

    def compared(self: Any, *args: Any) -> None:
        compare(self, *args)
        COMPILED.pop()

    monkeypatch.setattr(CompiledGraph, "_run", noted)
    monkeypatch.setattr(CompiledGraph, "_check_results", compared)
    yield
    torch._dynamo.reset()


def _inputs() -> tuple[Any, Any]:
    return torch.randn(2, 3, 10, 10), torch.randn(8, 1, 1)


def _assert_close(ours: Any, expected: Any) -> None:
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("as_mapping", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_module_becomes_a_network(as_mapping: bool) -> None:
    module = modules.Small().train()
    image, scale = _inputs()
    example = {"image": image, "scale": scale} if as_mapping else (image, scale)
    network = autosched.from_torch(module, example)
    assert module.training and module.drop.training
    assert [value.name for value in network.inputs] == ["image", "scale"]
    compiled = autosched.compile(network)
    results = list(compiled.run({"image": image.numpy(), "scale": scale.numpy()}).values())
    with torch.no_grad():
        expected = module.eval()(image, scale)
    for ours, name in zip(results, ("logits", "maps"), strict=True):
        np.testing.assert_allclose(ours, expected[name].numpy(), rtol=1e-4, atol=1e-5)


def test_modules_that_cannot_be_exported_give_one_error() -> None:
    class Branching(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(ModelImportError, match="torch cannot export the module"):
        autosched.from_torch(Branching(), torch.ones(2))
    with pytest.raises(ModelImportError, match=r"takes a torch\.nn\.Module, got int"):
        autosched.from_torch(3, torch.ones(2))
    with pytest.raises(ModelImportError, match="example inputs are of type int"):
        autosched.from_torch(modules.Small(), 3)


def test_a_module_that_changes_a_buffer_is_refused() -> None:
    class Counting(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return x * self.calls

    with pytest.raises(ModelImportError, match="the module changes calls"):
        autosched.from_torch(Counting(), torch.ones(2))


def test_compiled_modules_equal_eager_ones_and_follow_their_weights() -> None:
    module = modules.Small().eval()
    options = {"effort": "none"}
    compiled = torch.compile(module, backend=backend_module.backend, options=options)
    image, scale = _inputs()
    with torch.no_grad():
        _assert_close(compiled(image, scale), module(image, scale))
        _assert_close(compiled(image * 2, scale), module(image * 2, scale))
        assert len(COMPILED) == 2
        module.head.weight.mul_(3)
        module.load_state_dict({**module.state_dict(), "conv.bias": torch.ones(8)})
        _assert_close(compiled(image, scale), module(image, scale))
        other = torch.randn(1, 3, 7, 9)
        _assert_close(compiled(other, scale), module(other, scale))
    assert len(COMPILED) == 4


@pytest.mark.parametrize("write", ["data", "numpy"])
def test_weights_written_past_the_counter_are_followed(write: str) -> None:
    layer = torch.nn.Linear(3, 5)
    compiled = torch.compile(layer, backend=backend_module.backend, options={"effort": "none"})
    x = torch.ones(2, 3)
    with torch.no_grad():
        compiled(x)
        if write == "data":
            layer.weight.data += 2
        else:
            layer.weight.detach().numpy()[:] = 3
        _assert_close(compiled(x), layer(x))


def test_results_lie_in_memory_as_torchs() -> None:
    """Views of a result, within the graph and after it, rely on it."""

    def function(x: Any) -> Any:
        y = x.transpose(1, 2) * 2
        z = x + 1
        return y, z, z.view(-1), z[:, 1:], (x * 3)[:1].expand(4, 3, 4), (x / 2)[:, :, 1:]

    compiled = torch.compile(function, backend=backend_module.backend, options={"effort": "none"})
    x = torch.randn(2, 3, 4)
    with torch.no_grad():
        ours, theirs = compiled(x), function(x)
        for results in (ours, theirs):
            results[1].add_(1)
            results[3].mul_(2)
    assert COMPILED
    for one, other in zip(ours, theirs, strict=True):
        _assert_close(one, other)
        assert one.stride() == other.stride()


def test_a_result_that_is_several_outputs_goes_through_onnx() -> None:
    """ONNX names each output once; sorting has no converter, and a counter is also written."""

    class Module(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Any) -> Any:
            self.calls += 1
            ordered = x.msort()
            return ordered * self.calls, ordered, ordered, x[:, :0] * 2

    module, data = Module(), torch.randn(5, 3)
    compiled = torch.compile(module, backend="autosched", options={"cache": False})
    with torch.no_grad():
        for calls in range(1, 3):
            results, sorted_data = compiled(data), data.msort()
            _assert_close(results, (sorted_data * calls, sorted_data, sorted_data, data[:, :0]))
            assert results[3].stride() == (1, 1)
    assert len(COMPILED) == 2 and module.calls == 2


@pytest.mark.slow
def test_views_of_attention_with_a_mask_go_through_onnx() -> None:
    """Truncation has no converter; heads that are joined are a view of what attention wrote."""

    def function(x: Any, mask: Any) -> Any:
        heads = torch.nn.functional.scaled_dot_product_attention(x, x, x, mask)
        return heads.transpose(1, 2).reshape(2, 5, 12) + (x[:, 0, :, :1] * 4).long()

    compiled = torch.compile(function, backend=backend_module.backend, options={"effort": "none"})
    args = torch.randn(2, 3, 5, 4), torch.rand(2, 1, 5, 5) > 0.4
    with torch.no_grad():
        _assert_close(compiled(*args), function(*args))
    assert COMPILED


def test_graphs_are_compiled_in_inference_mode() -> None:
    layer = torch.nn.Linear(3, 5)
    compiled = torch.compile(layer, backend=backend_module.backend, options={"effort": "none"})
    with torch.inference_mode():
        x = torch.ones(2, 3)
        _assert_close(compiled(x), layer(x))
        own = torch.nn.Linear(3, 4)  # torch does not count what is written into its weights
        left = torch.compile(own, backend=backend_module.backend, options={"effort": "none"})
        _assert_close(left(x), own(x))
    assert len(COMPILED) == 1


def test_a_graph_is_compiled_for_so_many_shapes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each takes seconds, and constants are in every one of them."""
    made: list[int] = []

    def specialise(self: Any, args: Any, versions: Any, keep: bool) -> Any:
        made.append(args[0].shape[0])
        return compiled_graph._Specialised(None, versions, ConstantsWatch([]))

    monkeypatch.setattr(CompiledGraph, "_specialise", specialise)
    graph = torch.fx.symbolic_trace(lambda x: (x + 1,))
    compiled = CompiledGraph(graph, frozenset(), BackendOptions(shapes=3), "7/0")
    with caplog.at_level(logging.WARNING, "autosched.torch"):
        for rows in (1, 2, 3, 1, 4, 5, 3, 2):
            _assert_close(compiled(torch.ones(rows))[0], torch.full((rows,), 2.0))
    assert made == [1, 2, 3]
    assert [record.getMessage() for record in caplog.records] == [
        "graph 7/0 is compiled for 3 sets of input shapes; with others torch runs it "
        '(options={"shapes": 6} allows more)'
    ]


def test_graph_breaks_side_effects_and_constants_are_as_in_eager_mode() -> None:
    def function(x: Any, count: int) -> Any:
        x.add_(1)
        y = torch.tanh(x) * count
        print("a graph break")
        return y.view(-1), 3, None, x.shape[0], y + x

    compiled = torch.compile(function, backend=backend_module.backend, dynamic=True)
    for size, count in ((4, 2), (6, 5)):
        ours, theirs = torch.randn(size, 3), torch.empty(size, 3)
        theirs.copy_(ours)
        with torch.no_grad():
            _assert_close(compiled(ours, count), function(theirs, count))
        _assert_close(ours, theirs)
    assert COMPILED


def test_training_and_unsupported_parts_are_left_to_torch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = torch.compile(module, backend=backend_module.backend)
    x = torch.randn(3, 4)
    compiled(x).sum().backward()
    ours = module[0].weight.grad.clone()
    module.zero_grad()
    module(x).sum().backward()
    _assert_close(ours, module[0].weight.grad)

    def spectrum(x: Any) -> Any:
        return torch.linalg.eigvalsh(x @ x.T)

    with torch.no_grad(), caplog.at_level(logging.WARNING, "autosched.torch"):
        eigenvalues = torch.compile(spectrum, backend=backend_module.backend)(x)
        _assert_close(eigenvalues, spectrum(x))
        other = torch.compile(lambda t: t.to(torch.complex64) * 2, backend=backend_module.backend)
        _assert_close(other(x), x.to(torch.complex64) * 2)
    assert "stays with torch" in caplog.text
    assert not COMPILED


def test_complex_inputs_are_refused_before_anything_is_exported(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported: list[Any] = []
    monkeypatch.setattr(compiled_graph, "exported", exported.append)
    x = torch.complex(torch.randn(2, 3), torch.randn(2, 3))
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autosched.torch"):
        compiled = torch.compile(lambda t: t.abs() + 1, backend=backend_module.backend)
        _assert_close(compiled(x), x.abs() + 1)
    assert not exported and not COMPILED
    assert "is of type complex64, which networks do not take" in caplog.text


def test_statistics_of_the_batch_are_left_to_torch(caplog: pytest.LogCaptureFixture) -> None:
    """The exporter writes a batch norm in training mode as one of stored statistics."""
    module, eager = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    compiled = torch.compile(module, backend=backend_module.backend)
    x = torch.randn(2, 3, 4, 4) * 3 + 1
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autosched.torch"):
        _assert_close(compiled(x), eager(x))
        _assert_close(module.running_mean, eager.running_mean)
    assert "statistics of its batch" in caplog.text


def test_options_are_checked() -> None:
    compiled = torch.compile(
        nn.ReLU(), backend=backend_module.backend, options={"targets": "cpu-avx2"}
    )
    with pytest.raises(Exception, match="option 'targets' is unknown"):
        compiled(torch.ones(2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"effort": "much"}, "effort 'much' is unknown"),
        ({"threads": 0}, "threads is 0"),
        ({"target": "cpu-9000"}, "cpu-9000"),
        ({"shapes": 0}, "shapes is 0"),
        ({"trials": 4}, "need a log"),
        ({"tune": "later"}, "tune 'later' is unknown"),
        ({"budget": "soon", "log": "a.jsonl"}, "'soon' is not a positive time"),
        ({"accuracy": "exact"}, "accuracy 'exact' is unknown"),
        ({"cache": 3}, "cache is 3"),
        ({"cache_bytes": "4G"}, "cache_bytes is '4G'"),
    ],
)
def test_values_of_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(AutoschedError, match=message):
        backend_options(options)


@pytest.mark.parametrize(("denormals", "expected"), [("keep", 5e-41), ("flush", 0.0)])
def test_options_are_those_of_compile(denormals: str, expected: float) -> None:
    options = {"denormals": denormals, "accuracy": "as written"}
    halved = torch.compile(lambda x: x * 0.5, backend=backend_module.backend, options=options)
    with torch.no_grad():
        _assert_close(halved(torch.ones(2)), torch.full((2,), 0.5))
        assert halved(torch.full((2,), 1e-40)).tolist() == pytest.approx([expected] * 2, abs=1e-44)


def test_torch_knows_the_backend_by_name() -> None:
    from importlib.metadata import entry_points

    found = entry_points(group="torch_dynamo_backends", name="autosched")
    assert [entry.value for entry in found] == ["autosched.torch_frontend.backend:backend"]
    with torch.no_grad():
        module = nn.Linear(3, 2)
        x = torch.randn(4, 3)
        _assert_close(torch.compile(module, backend="autosched")(x), module(x))


def test_what_runs_on_the_host_is_said(caplog: pytest.LogCaptureFixture) -> None:
    class Sorted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.exp().sort(-1).values

    fast = torch.compile(Sorted().eval(), backend="autosched")
    x = torch.randn(2, 2000)
    with torch.no_grad(), caplog.at_level(logging.INFO, "autosched.torch"):
        np.testing.assert_allclose(fast(x), Sorted()(x), rtol=1e-5)
    assert ": 1 kernels, 1 on the host, " in caplog.text
    assert "operators without a kernel run on the host: TopK" in caplog.text

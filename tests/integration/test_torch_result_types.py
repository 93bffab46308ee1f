"""Dtypes and shapes of what a module returns are those of PyTorch, or the import is refused."""

from __future__ import annotations

from typing import Any

import pytest

import autosched as asd
from autosched.graph.errors import ModelImportError
from autosched.torch_frontend import export
from autosched.torch_frontend.aten import NotTakenError
from autosched.torch_frontend.tensors import to_torch
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
modules = lazily("tests.support.torch_modules")
pytestmark = pytest.mark.usefixtures("torchlib")


def _assert_same(module: Any, *args: Any) -> None:
    network = asd.from_torch(module, args)
    names = [value.name for value in network.inputs]
    results = asd.compile(network, effort="none").run(dict(zip(names, args, strict=True)))
    expected = module(*args)
    for ours, theirs in zip(results.values(), expected, strict=True):
        torch.testing.assert_close(to_torch(ours), theirs)


def _not_taken(_: Any) -> None:
    raise NotTakenError("on purpose")


@pytest.mark.parametrize("through_onnx", [False, True])
def test_shifted_bytes_are_bytes(monkeypatch: pytest.MonkeyPatch, through_onnx: bool) -> None:
    """The exporter's are signed."""
    if through_onnx:
        monkeypatch.setattr(export, "network_of_program", _not_taken)
    bytes_ = torch.arange(0, 256, 5).to(torch.uint8)
    module = modules.Function(
        lambda x: (
            x << 1, x >> 1, (x << 1).to(torch.int32), (x >> 4) & 0xF, x << -1, x >> 9,
            torch.bitwise_left_shift(x, x & 7), torch.bitwise_right_shift(x, x.flip(0)), 77 >> x,
            300 >> x, -3 >> x, 300 << x,
        )
    )  # fmt: skip
    _assert_same(module, bytes_)


@pytest.mark.parametrize("through_onnx", [False, True])
def test_whether_bytes_are_true_is_a_byte(
    monkeypatch: pytest.MonkeyPatch, through_onnx: bool
) -> None:
    if through_onnx:
        monkeypatch.setattr(export, "network_of_program", _not_taken)
    few = torch.tensor([[0, 0, 3], [0, 2, 3]], dtype=torch.uint8)
    module = modules.Function(
        lambda x: (
            x.any(0), x.all(0, True), x.any(), x.all(), x.any((0, 1)), x.all((0, 1)), x.any(1) * 3,
            x.all(1) + 255, x.float().any(0), torch.zeros(0, 3, dtype=torch.uint8).any(0) + x,
        )
    )  # fmt: skip
    _assert_same(module, few)


def test_results_have_the_dtype_of_torchs() -> None:
    """The exporter computes the similarity of float16 in float32, and returns that."""
    x = torch.randn(3, 4).half()
    module = modules.Function(
        lambda x: (torch.nn.functional.cosine_similarity(x, x.flip(0)), modules.scattered(x))
    )
    _assert_same(module, x)


@pytest.mark.parametrize(
    ("what", "function"),
    [
        ("part 1 of the module's result is 's', which is no tensor", lambda x: (x + 1, "s")),
        ("part 0 .* is 2, which is no tensor", lambda x: {"rows": x.shape[0], "sum": x.sum()}),
        ("part 1 .* is 2.5, which", lambda x: (x.sort()[0], 2.5)),
        ("part 1 .* is True, which", lambda x: [x, True]),
        ("returns no tensor", lambda x: None),
        (r"is complex64\[2, 3\], as ONNX it is .*view_as_real", lambda x: torch.fft.rfft(x)),
    ],
)
def test_what_is_no_tensor_of_numbers_is_refused(what: str, function: Any) -> None:
    with pytest.raises(ModelImportError, match=what):
        asd.from_torch(modules.Function(function), torch.randn(2, 4))


def test_complex_inputs_are_refused_and_pairs_are_taken() -> None:
    pairs = torch.randn(2, 5, 2)
    module = modules.Function(
        lambda x: (
            torch.view_as_real(torch.view_as_complex(x) * 2j),
            torch.view_as_complex(x).abs(),
        )
    )
    _assert_same(module, pairs)
    with pytest.raises(ModelImportError, match="'x' is of type complex64"):
        asd.from_torch(modules.Function(lambda x: x.real), torch.view_as_complex(pairs))


def test_parts_of_a_result_that_are_none_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(export, "_onnx_model")
    network = asd.from_torch(modules.Function(lambda x: (None, x + 1, None, x)), torch.ones(2))
    assert len(network.outputs) == 2


def test_an_index_smaller_than_what_is_scattered_reads_its_first_elements() -> None:
    torch.manual_seed(0)

    class Scatter(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any, src: Any, index: Any) -> Any:
            return (
                x.scatter(1, index, src), x.scatter_add(1, index, src),
                x.scatter_reduce(1, index, src, "amax"),
            )  # fmt: skip

    _assert_same(Scatter(), torch.randn(5, 6), torch.randn(5, 7), torch.tensor([[0, 2], [4, 3]]))

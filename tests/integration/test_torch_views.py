"""Resizing, samples at points, views and windows of torch, without ONNX in between."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

import autosched as asd
from autosched.graph.errors import ModelImportError
from autosched.torch_frontend import export
from autosched.torch_frontend.aten import NotTakenError
from tests.support.aten_networks import assert_equal, network_of, reference, traced
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
functional = lazily("torch.nn.functional")
pytestmark = pytest.mark.usefixtures("torchlib")


def _assert_same(function: Any, *args: Any) -> None:
    graph = traced(function, args)
    results = graph(*args)
    assert_equal(reference(network_of(graph, args), args), results, "as torch")


@pytest.mark.parametrize("seed", range(12))
def test_random_shapes(seed: int) -> None:
    rng = random.Random(seed)
    rank = rng.randint(1, 3)
    x = torch.randn(2, 3, *(rng.randint(2, 12) for _ in range(rank)))
    sizes, factor = [rng.randint(1, 20) for _ in range(rank)], rng.choice([0.6, 1.0, 1.7, 2, 2.9])
    smooth = ("linear", "bilinear", "trilinear")[rank - 1]
    step, window = rng.randint(1, 3), rng.randint(1, min(x.shape[2:]))
    points = torch.randn(2, *(rng.randint(1, 5) for _ in range(rank)), rank) * rng.choice([0.5, 2])
    outside, aligned = rng.randrange(3), rng.random() < 0.5

    def function(x: Any, points: Any) -> tuple[Any, ...]:
        pool = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[rank - 1]
        written = torch.slice_scatter(x, x[:, :, :1], 2, window - 1, window)
        return (
            functional.interpolate(x, sizes, mode=smooth, align_corners=aligned),
            functional.interpolate(x, scale_factor=factor, mode=smooth),
            functional.interpolate(x, scale_factor=factor, mode="nearest"),
            functional.interpolate(x, sizes, mode="nearest-exact"),
            *pool(x, 2, step, return_indices=True),
            *(torch.grid_sampler(x, points, m, outside, aligned) for m in (0, 1) if rank > 1),
            *(functional.interpolate(x, sizes, mode="bicubic") for _ in range(rank == 2)),
            written.unfold(-1, min(window, x.shape[-1]), step),
            torch.as_strided(x, (2, 2, window), (3, 0, 1), rank),
        )

    _assert_same(function, x, points)


def test_memory_that_nobody_has_written_is_zero() -> None:
    """It may hold NaN, and another run would see other numbers."""

    def function(x: Any) -> Any:
        rows = torch.full((5,), torch.nan, dtype=x.dtype)
        rows = torch.empty_like(rows).slice_scatter(x, 0, 0, 3)
        return rows.slice_scatter(x[:2] * 2, 0, 3, 5)

    args = (torch.randn(3),)
    network = network_of(traced(function, args), args)
    assert not any(array.any() for array in network.graph.constants.values() if array.ndim)
    assert_equal(reference(network, args), [function(*args)], "written")


@pytest.mark.parametrize("mode", ["linear", "bilinear", "bicubic", "trilinear"])
def test_one_element_is_interpolated_in_the_middle(mode: str) -> None:
    def function(x: Any) -> Any:
        return functional.interpolate(x, (1,) * rank, mode=mode) * 2

    rank = {"linear": 1, "trilinear": 3}.get(mode, 2)
    args = (torch.randn(2, 3, *(4, 7, 6)[:rank]),)
    assert_equal(reference(network_of(traced(function, args), args), args), [function(*args)], "")


def test_points_beyond_the_border_are_sampled_cubically() -> None:
    def function(x: Any, points: Any) -> Any:
        return torch.grid_sampler(x, points, 2, 1, False), torch.grid_sampler(x, points, 2, 1, True)

    args = torch.randn(2, 3, 4, 5), torch.randn(2, 6, 2, 2) * 2
    assert_equal(reference(network_of(traced(function, args), args), args), function(*args), "")


def test_views_of_a_transposed_tensor_are_where_its_memory_is() -> None:
    def function(x: Any) -> Any:
        return torch.as_strided(x.t(), (2, 3), (1, 4)) * 2

    args = (torch.randn(3, 4),)
    assert_equal(reference(network_of(traced(function, args), args), args), [function(*args)], "")


def _not_taken(_: Any) -> None:
    raise NotTakenError("on purpose")


def _strided(x: Any) -> tuple[Any, ...]:
    y = x.clone()
    y.as_strided((3, 4), (8, 2), 1).zero_()
    return (
        x[1:].as_strided((2, 2), (1, 3)),
        x.transpose(0, 1).as_strided((2, 2), (1, 3)),
        (x * 2).permute(2, 0, 1).as_strided((3, 2), (2, 5), 1),
        x[:, 1:].as_strided((2, 2), (1, 2)),
        x[:1].expand(3, 2, 4).as_strided((5,), (1,)),
        y,
    )


@pytest.mark.parametrize("through_onnx", [False, True])
def test_views_and_writes_are_where_memory_is(
    through_onnx: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if through_onnx:
        monkeypatch.setattr(export, "network_of_program", _not_taken)
    x, module = torch.randn(3, 2, 4), _module(_strided)
    assert_equal(reference(asd.from_torch(module, x), [x]), module(x), "strided")


def test_memory_beyond_a_tensor_is_not_read() -> None:
    module = _module(lambda x: x[1:].as_strided((2, 2), (1, 3), 0))
    with pytest.raises(ModelImportError, match="views memory beyond the elements of its tensor"):
        asd.from_torch(module, torch.randn(3, 4))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_smoothing_by_factors_and_with_aligned_corners(mode: str) -> None:
    def function(x: Any) -> tuple[Any, ...]:
        smoothed = partial(functional.interpolate, x, mode=mode, antialias=True)
        return (
            smoothed(scale_factor=0.37),
            smoothed(scale_factor=(1.7, 0.6), recompute_scale_factor=False),
            smoothed(size=(3, 9), align_corners=True),
            smoothed(size=(1, 7), align_corners=True),
        )

    _assert_same(function, torch.randn(2, 3, 7, 6))


def _module(function: Any) -> Any:
    class Module(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return function(x)

    return Module()


@pytest.mark.parametrize("batch", [(), (2,)])
def test_convolutions_of_volumes_need_no_bias(
    batch: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch's exporter would add zeros of the shape [6, 2]."""
    monkeypatch.setattr(export, "network_of_program", _not_taken)
    module = torch.nn.Conv3d(4, 6, 3, 2, (1, 0, 2), bias=False, groups=2).eval()
    x = torch.randn(*batch, 4, 5, 6, 7)
    network = asd.from_torch(module, x)
    assert not any(node.op.on_host for node in network.graph.nodes)
    with torch.no_grad():
        assert_equal(reference(network, [x]), [module(x)], "convolution")

"""PyTorch modules whose translation to ONNX needs care: equal results, or a clear refusal."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import autosched as asd
from autosched.graph.errors import ModelImportError
from autosched.torch_frontend import export
from autosched.torch_frontend.agreement import agree
from autosched.torch_frontend.aten import NotTakenError
from autosched.torch_frontend.compiled_graph import CompiledGraph
from autosched.torch_frontend.encoder_layer import encoder_layer
from autosched.torch_frontend.tensors import to_torch
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
modules = lazily("tests.support.torch_modules")
nn = lazily("torch.nn")
functional = lazily("torch.nn.functional")
torch_backend = lazily("autosched.torch_frontend.backend")
pytestmark = pytest.mark.usefixtures("torchlib")


def _run(module: Any, *args: Any) -> list[Any]:
    network = asd.from_torch(module, args)
    names = [value.name for value in network.inputs]
    results = asd.compile(network, effort="none").run(dict(zip(names, args, strict=True)))
    return [to_torch(result) for result in results.values()]


def test_inputs_that_are_outputs_keep_their_names() -> None:
    class Twice(nn.Module):  # type: ignore[misc]
        def forward(self, image: Any, other: Any) -> Any:
            return image + other, image, other

    inputs = {"image": torch.randn(3), "other": torch.randn(3)}
    network = asd.from_torch(Twice(), inputs)
    assert [value.name for value in network.inputs] == ["image", "other"]
    results = asd.compile(network, effort="none").run(inputs)
    expected = (inputs["image"] + inputs["other"], *inputs.values())
    for ours, theirs in zip(results.values(), expected, strict=True):
        torch.testing.assert_close(to_torch(ours), theirs)


@pytest.mark.slow
def test_scales_with_aligned_corners_and_nearest_elements_are_torchs() -> None:
    x = torch.randn(1, 2, 20, 11)
    module = modules.Function(
        lambda t: (
            functional.interpolate(t, scale_factor=1.7, mode="bilinear", align_corners=True),
            functional.interpolate(t, scale_factor=1.7),
        )
    )
    for ours, theirs in zip(_run(module, x), module(x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_volumes_and_rows_are_resized_by_their_scales(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exporter reads the scales of lists alone; a single element is in the middle."""
    monkeypatch.setattr(export, "network_of_program", _not_taken)
    aten, x = torch.ops.aten, torch.randn(1, 2, 5, 4, 7)
    module = modules.Function(
        lambda t: (
            aten.upsample_linear1d.default(t[:, 0, 0], [11], False, 1.7),
            aten.upsample_linear1d.default(t[:, 0, 0], [11], True, 1.7),
            aten.upsample_trilinear3d.default(t, [8, 10, 11], False, 1.7, 2.5, 1.7),
            functional.interpolate(t, (4, 1, 3), mode="trilinear"),
        )
    )
    for ours, theirs in zip(_run(module, x), module(x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_small_numbers_keep_their_digits() -> None:
    """The exporter writes log(1 + x) and exp(x) - 1, in which 1e-6 becomes 9.5e-7."""
    edges = torch.tensor([0.0, -1.0, -0.75, 1e-30, 3e38, float("inf"), -100.0, 100.0, -2.0])
    small = torch.logspace(-8, 1, 40)
    module = modules.Function(lambda x: (torch.log1p(x), torch.expm1(x)))
    for x in (torch.cat([small, -small / 11, edges]), small.double()):
        for ours, theirs in zip(_run(module, x), module(x), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=2e-6, atol=0, equal_nan=True)


@pytest.mark.slow
def test_quotients_signs_and_angles_are_torchs() -> None:
    """Where the exporter rounds, overflows, or takes what is no number for zero."""
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([1.0, -1.0, nan, inf, -inf, 0.0, -0.0, 1000.0])[:, None]
    y = torch.tensor([0.1, -0.1, 3.0, -inf, -0.0, 999.0, nan])
    i = torch.tensor([-20_000_001, 20_000_006, -7, 7, 0, -(1 << 40) - 1])

    class Module(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any, y: Any, i: Any) -> Any:
            return (
                torch.logaddexp(x, y), torch.atan2(x, y), x.sign(), torch.signbit(x / 2), x.log1p(),
                torch.floor_divide(x, y), torch.div(x, y, rounding_mode="floor"), x // 0.1,
                torch.div(i, 7, rounding_mode="trunc"), torch.div(i, i - 5, rounding_mode="floor"),
            )  # fmt: skip

    for ours, theirs in zip(_run(Module(), x, y, i), Module()(x, y, i), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6, equal_nan=True)


def _not_taken(_: Any) -> None:
    raise NotTakenError("on purpose")


REMAINDERS = 1e10, -1e7, 5.0, -5.0, 0.3, -1e20, 0.0, 6.0, -6.0, float("inf"), float("nan")


def test_remainders_of_many_divisors_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exporter takes a rounded quotient, which makes 1e10 % 3 256."""
    monkeypatch.setattr(export, "network_of_program", _not_taken)
    x = torch.tensor(REMAINDERS)
    module = modules.Function(lambda x: (x % 3, x % -0.1, x[:, None] % x, 7 % x, x.half() % 3))
    for ours, theirs in zip(_run(module, x), module(x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def test_divisors_of_float64_have_all_their_digits() -> None:
    """The exporter's are of float32."""
    x = torch.tensor(REMAINDERS).double()
    module = modules.Function(lambda x: (x % 0.1, torch.fmod(x, 0.1), torch.fmod(x[:, None], x)))
    for ours, theirs in zip(_run(module, x), module(x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def test_small_addends_and_factors_near_one_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exporter's optimiser takes both for nothing."""
    monkeypatch.setattr(export, "network_of_program", _not_taken)
    x = torch.tensor([0.0, 1e-7, -1e-12, 1e-8, 1.0, 3.0])
    module = modules.Function(
        lambda x: (x / (x * x + 1e-9), x - 1e-10, 1.000001 * x, x / 0.999999, (x + 1e-11).rsqrt())
    )
    for ours, theirs in zip(_run(module, x), module(x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=5e-7, atol=0, equal_nan=True)


def test_logarithms_are_whole_where_they_should_be() -> None:
    """And have all digits of float64."""
    edges = torch.tensor([0.0, -1.0, torch.inf, torch.nan, 3.0, 0.7, 1 + 1e-6]).double()
    powers = 2.0 ** torch.arange(-120, 120, 7).double(), 10.0 ** torch.arange(-9, 30).double()
    x = torch.cat([*powers, edges])
    module = modules.Function(lambda x: (x.log2(), x.float().log2(), x.log10()))
    for ours, theirs in zip(_run(module, x), module(x), strict=True):
        rounding = 4 * torch.finfo(theirs.dtype).eps
        torch.testing.assert_close(ours, theirs, rtol=rounding, atol=0, equal_nan=True)
        whole = theirs == theirs.round()
        assert torch.equal(ours[whole], theirs[whole])


def test_operators_that_torch_takes_apart_need_no_onnx(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(export, "_onnx_model")
    x = torch.cat([torch.zeros(1, 7, 3), torch.randn(2, 7, 3)])
    module = modules.Function(
        lambda x: (
            functional.rms_norm(x.double(), (3,)),
            functional.instance_norm(x, weight=torch.arange(7.0)),
            functional.instance_norm(x.sign().bfloat16()),
        )
    )
    for ours, theirs in zip(_run(module, x), module(x), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("exported", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_roots_and_functions_of_two_dtypes_are_torchs(
    monkeypatch: pytest.MonkeyPatch, exported: bool
) -> None:
    """A root has no value at minus infinity, a power has; of float16 torch takes powers."""
    if exported:
        monkeypatch.setattr(export, "network_of_program", _not_taken)
    x = torch.tensor([torch.inf, -torch.inf, -0.0, 4.0, -1.0])[:, None]

    class Module(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any, wide: Any, half: Any, i: Any) -> Any:
            return (
                x**0.5, x**-0.5, half**0.5, half**-0.5, torch.logaddexp(x, wide),
                torch.logaddexp(i, half), torch.atan2(i, half), torch.atan2(wide, x),
            )  # fmt: skip

    args = x, torch.tensor([0.1, 3.0]).double(), x.half(), torch.tensor([-3, 7], dtype=torch.int32)
    for ours, theirs in zip(_run(Module(), *args), Module()(*args), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=None, atol=None, equal_nan=True)


def test_integers_are_round_and_have_values() -> None:
    i = torch.tensor([-7, 0, 1 << 40])
    module = modules.Function(lambda i: (i.floor(), i.ceil(), i.round(), i.isnan(), i.isinf()))
    for ours, theirs in zip(_run(module, i), module(i), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_factors_of_float16_may_be_any_numbers() -> None:
    x = torch.tensor([0.0, 6e4, 1e-6, -float("inf")]).half()
    module = modules.Function(lambda x: (x * 1e30, x / 1e30, x * 1e-8, x / 1e-8, x * 0.1))
    for ours, theirs in zip(_run(module, x), module(x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=0, equal_nan=True)


@pytest.mark.parametrize("boolean", [pytest.param(True, marks=pytest.mark.slow), False])
@pytest.mark.parametrize("exported", [False, True])
def test_queries_that_see_no_key_give_zeros(
    monkeypatch: pytest.MonkeyPatch, boolean: bool, exported: bool
) -> None:
    """The exporter writes what has no value there, or the mean of all values."""
    if exported:
        monkeypatch.setattr(export, "network_of_program", _not_taken)
    seen = (torch.rand(2, 1, 5, 5) > 0.4) & (torch.arange(5) != 2)[:, None]
    mask = seen if boolean else torch.where(seen, 0.0, -torch.inf)
    module = modules.Function(
        lambda x: (
            functional.scaled_dot_product_attention(x, x, -x, mask),
            functional.scaled_dot_product_attention(x[0], x[1], x[0], mask[0, 0], scale=0.7),
            functional.scaled_dot_product_attention(x, x, x, is_causal=True),
            functional.scaled_dot_product_attention(x, x[:, :2], -x[:, :2], mask, enable_gqa=True),
        )
    )
    x = torch.randn(2, 4, 5, 4)
    for ours, theirs in zip(_run(module, x), module(x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("through_onnx", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("hidden", [float("nan"), -float("inf")])
def test_keys_that_a_causal_query_does_not_see_may_be_anything(
    hidden: float, through_onnx: bool
) -> None:
    """Scatters have no converter."""
    both = torch.randn(2, 1, 2, 6, 4)
    both[1, :, :, 4:, 1] = hidden

    def attention(x: Any) -> Any:
        result = functional.scaled_dot_product_attention(x[0], x[1], x[0], is_causal=True)
        return result, modules.scattered(x[0]) if through_onnx else x[0]

    ours, theirs = _run(modules.Function(attention), both)[0], attention(both)[0]
    assert not ours[:, :, :4].isnan().any()
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5, equal_nan=True)


REFUSED = {
    "divides by a number of its own": lambda x: functional.avg_pool2d(x, 2, divisor_override=3),
    "statistics of its batch": lambda x: functional.batch_norm(
        x, torch.zeros(2), torch.ones(2), training=True
    ),
    "smooths by scale factors": lambda x: functional.interpolate(
        x, scale_factor=0.4, mode="bilinear", antialias=True
    ),
    "smooths with aligned corners": lambda x: functional.interpolate(
        x, (5, 4), mode="bilinear", antialias=True, align_corners=True
    ),
    "takes means": lambda x: (
        x[0, 0]
        .long()
        .scatter_reduce(0, torch.zeros(8, 8, dtype=torch.int64), x[0, 1].long(), "mean")
    ),
    "scales a product": lambda x: (
        torch.addmm(x[0, 0], x[0, 0], x[0, 1], beta=0, alpha=2) + modules.scattered(x[0, 0])
    ),
    "interpolates cubically": lambda x: functional.grid_sample(
        x, x.permute(0, 2, 3, 1), "bicubic", "border", align_corners=True
    ),
    "No ONNX function found for .*linalg": lambda x: torch.linalg.inv(x),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_the_exporter_gets_wrong_is_refused(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "network_of_program", _not_taken)
    with pytest.raises(ModelImportError, match=reason):
        asd.from_torch(modules.Function(REFUSED[reason]), torch.randn(1, 2, 8, 8))


def test_exporting_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        asd.from_torch(
            modules.Function(lambda x: torch.split(torch.ones(4), 2)[0] + x), torch.ones(2)
        )
    assert not caplog.records


@pytest.mark.parametrize("gelu", [True, False])
@pytest.mark.parametrize(
    ("kind", "shape"), [(None, None), (0, (5, 5)), (1, (2, 5)), (2, (2, 2, 5, 5))]
)
def test_encoder_layers_are_those_of_torch(
    kind: int | None, shape: tuple[int, ...] | None, gelu: bool
) -> None:
    torch.manual_seed(0)
    mask = None if shape is None else torch.rand(shape) < 0.3
    if mask is not None:
        mask[..., 0] = False
    weights = [(48, 16), (48,), (16, 16), (16,)]
    others = [*[(16,)] * 4, (24, 16), (24,), (16, 24), (16,)]
    first, last = ([torch.randn(size) * 0.3 for size in sizes] for sizes in (weights, others))
    arguments = (torch.randn(2, 5, 16), 16, 2, *first, gelu, not gelu, 1e-5, *last, mask, kind)
    fused = torch.ops.aten._transformer_encoder_layer_fwd.default
    torch.testing.assert_close(encoder_layer(*arguments), fused(*arguments), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_graphs_with_constants_and_encoder_layers_are_compiled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """torch runs encoder layers in evaluation mode as one fused operator."""
    torch._dynamo.reset()
    layer = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autosched.torch"):
        compiled = torch.compile(
            lambda t: layer(t) + torch.tensor([1.0, 2.0])[:1],
            backend=torch_backend.backend,
            options={"effort": "none"},
        )
        torch.testing.assert_close(compiled(x), layer(x) + 1, rtol=1e-4, atol=1e-5)
    assert "stays with torch" not in caplog.text


def test_results_that_differ_are_left_to_torch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    torch._dynamo.reset()
    original = CompiledGraph._run

    def wrong(self: Any, *args: Any) -> Any:
        return tuple(result + 0.1 for result in original(self, *args))

    monkeypatch.setattr(CompiledGraph, "_run", wrong)
    x = torch.randn(4)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autosched.torch"):
        compiled = torch.compile(
            torch.tanh, backend=torch_backend.backend, options={"cache": False}
        )
        torch.testing.assert_close(compiled(x), torch.tanh(x))
    assert "output 0 is not what torch computes" in caplog.text


def test_agreement_is_up_to_rounding() -> None:
    x = torch.tensor([1.0, -3.0, float("nan"), float("inf")])
    near = x * (1 + 1e-6)
    assert agree(near, x)
    assert not agree(x + 0.1, x)
    assert not agree(x.nan_to_num(), x)
    assert not agree(-x, x)
    assert not agree(x[:3], x)
    assert not agree(x.double(), x)
    assert agree(x.half(), x.half() * 1.01)
    assert agree(torch.empty(0), torch.empty(0))
    numbers = torch.arange(200)
    assert agree(numbers, numbers.where(numbers != 3, 4))
    assert not agree(numbers, numbers + 1)

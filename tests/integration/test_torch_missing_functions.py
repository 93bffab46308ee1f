"""Functions that torch's exporter does not know, or writes so that digits are lost."""

from __future__ import annotations

import math
from typing import Any

import pytest

import autosched as asd
from autosched.system.errors import OptionError
from autosched.torch_frontend import export
from autosched.torch_frontend.tensors import to_numpy, to_torch
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
functional = lazily("torch.nn.functional")
modules = lazily("tests.support.torch_modules")
experts = lazily("autosched.torch_frontend.experts")
error_functions = lazily("autosched.torch_frontend.error_functions")
torch_backend = lazily("autosched.torch_frontend.backend")
pytestmark = pytest.mark.usefixtures("torchlib")
INF, NAN = float("inf"), float("nan")


def _assert_same(function: Any, *args: Any, digits: float = 1e-6, least: float = 0.0) -> None:
    class Module(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, *given: Any) -> Any:
            return function(*given)

    network = asd.from_torch(Module(), args)
    named = zip(network.inputs, map(to_numpy, args), strict=True)
    results = asd.compile(network, effort="none").run({spec.name: array for spec, array in named})
    for ours, theirs in zip(results.values(), function(*args), strict=True):
        torch.testing.assert_close(to_torch(ours), theirs, rtol=digits, atol=least, equal_nan=True)


def _pairs() -> tuple[Any, Any]:
    edges = torch.tensor([NAN, INF, -INF, 0.0, 1.0, -1.0, 3e38, -3e38, 1e-20, 2.5])
    both = torch.cartesian_prod(edges, edges).T.contiguous()
    return both[0], both[1]


@pytest.mark.parametrize("double", [False, True])
def test_erfc_keeps_its_digits(double: bool) -> None:
    """1 - erf(x) is 0 from 4 on."""
    x = torch.linspace(-6, 9, 301, dtype=torch.float64)
    x = x if double else x.float()
    exact = torch.tensor([math.erfc(value) for value in x.tolist()], dtype=torch.float64)
    found = error_functions.erfc(x)
    digits = 1e-13 if double else 1e-6
    torch.testing.assert_close(found, exact.to(x.dtype), rtol=digits, atol=0)


def test_error_functions_are_torchs() -> None:
    x = torch.tensor([-INF, -10, -1, -0.3, 0, 0.2, 1, 4.75, 9, 20, INF, NAN])
    _assert_same(lambda x: (x.erfc(), torch.special.erfcx(x), x.double().erfc()), x, digits=2e-6)
    _assert_same(lambda i: (i.erfc(),), torch.tensor([-1, 0, 3]))


def test_sums_of_powers_of_2_do_not_overflow() -> None:
    """-1 and -1 give 0, and 1e-8 in PyTorch."""
    _assert_same(lambda x, y: (torch.logaddexp2(x, y),), *_pairs(), least=1e-7)


def test_element_wise_functions_are_torchs() -> None:
    i = torch.tensor([-3, 0, 5])

    def functions(x: Any, y: Any, i: Any) -> Any:
        return (
            torch.hypot(x, y), torch.fmax(x, y), torch.fmin(x, y), torch.fmax(i, -i),
            torch.copysign(x, y.nan_to_num()), torch.copysign(i, -0.0), torch.copysign(i, -i),
            torch.copysign(i + 2**40, y[6:7].double()) - 2**40, torch.copysign(x, i[0]),
        )  # fmt: skip

    _assert_same(functions, *_pairs(), i)


def test_sorts_and_medians_are_torchs() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 7)
    x[1, 3] = NAN

    def functions(x: Any, i: Any) -> Any:
        return (
            *i.sort(dim=0, stable=True), i.argsort(stable=True, descending=True), x.median(),
            *x.median(1), *x.median(0, True), i.median(1)[0], *x.kthvalue(3, 1),
            *x.kthvalue(6, 1), *x.kthvalue(2, 0, True),
        )  # fmt: skip

    _assert_same(functions, x, torch.arange(12).reshape(3, 4) % 5)


def test_bfloat16_is_sorted() -> None:
    """Rows that no kernel sorts, of which ONNX has no operator before opset 24."""
    torch.manual_seed(0)
    x = torch.randn(1, 600).to(torch.bfloat16)
    x[0, 3] = NAN

    def functions(x: Any) -> Any:
        values = x.topk(300)[0], x.sort(-1, True)[0], x.gather(1, x.argsort()), x.median(1)[0]
        return [part.float() for part in (*values, x.kthvalue(300, 1)[0])]

    _assert_same(functions, x)


def test_the_median_of_several_nan_is_the_first() -> None:
    x = torch.tensor([[NAN, 1, NAN, 2], [3, 1, NAN, NAN], [4, 1, 2, 3], [NAN, NAN, NAN, NAN]])
    _assert_same(lambda x: (*x.median(1), *x.median(0, True), *x.median(-1, True)), x)


def test_running_extremes_are_torchs() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 7).round()
    x[1, 3] = NAN
    i = torch.tensor([[3, 1, 1, -2, 5]])
    _assert_same(lambda x, i: (*x.cummax(1), *x.cummin(0), *i.cummin(-1)), x, i)


def test_pools_of_windows_of_several_sizes_are_torchs() -> None:
    torch.manual_seed(0)

    def functions(x: Any) -> Any:
        return (
            functional.adaptive_max_pool2d(x[0], (3, 2)),
            functional.adaptive_max_pool1d(x[0, 0], 9),
            *functional.adaptive_max_pool2d(x[0], (4, 2), return_indices=True),
            *functional.adaptive_max_pool3d(x, (1, 3, 2), return_indices=True),
            functional.adaptive_avg_pool2d(x[0], (3, 2)),
            functional.adaptive_avg_pool3d(x, (2, 3, 7)),
            functional.adaptive_avg_pool1d(x[0, 0].half(), 3),
        )  # fmt: skip

    x = torch.randn(1, 2, 4, 7, 5).round()
    x[0, 0, 0, 3, 2] = INF
    _assert_same(functions, x)


def test_norms_of_narrow_numbers_may_have_wide_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under autocast; ONNX has no convolutions of bfloat16 beside them."""
    monkeypatch.delattr(export, "_onnx_model")
    torch.manual_seed(0)
    w = torch.rand(4) + 0.5

    def functions(x: Any, w: Any) -> Any:
        return (
            functional.group_norm(x, 2, w, -w), functional.layer_norm(x.mT, (4,), w, -w),
            functional.batch_norm(x, w, w, w, -w), functional.instance_norm(x, None, None, w, -w),
        )  # fmt: skip

    _assert_same(functions, torch.randn(2, 4, 5).bfloat16(), w, digits=1e-2, least=1e-2)


def test_modes_of_torchs_own_back_end_are_refused() -> None:
    with pytest.raises(OptionError, match=r"mode 'max-autotune' .*effort"):
        torch_backend.backend(None, [], mode="max-autotune")


@pytest.mark.parametrize("rows", [3, 9])
def test_rows_in_groups_have_a_matrix_for_each_group(rows: int) -> None:
    """Groups may be empty; few rows take another way than many."""
    torch.manual_seed(0)
    x, weights = torch.randn(rows, 8).bfloat16(), torch.randn(4, 8, 16).bfloat16()
    ends = torch.tensor([rows // 3, rows // 3, rows - 1, rows], dtype=torch.int32)

    def products(x: Any, weights: Any, ends: Any) -> Any:
        return (functional.grouped_mm(x, weights, offs=ends),)

    _assert_same(products, x, weights, ends, digits=2**-7, least=2**-7)


def test_rows_after_the_last_group_are_0() -> None:
    x, weights, ends = torch.ones(9, 2), torch.ones(2, 2, 3), torch.tensor([4, 7])
    found = experts.grouped_product(x, weights, ends)
    assert found[:, 0].tolist() == [2.0] * 7 + [0.0] * 2


def test_mixtures_of_experts_of_transformers_are_networks() -> None:
    """Their product of groups is an operator of their own."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.MixtralConfig(
        vocab_size=20, hidden_size=16, intermediate_size=24, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, num_local_experts=4, use_cache=False,
    )  # fmt: skip
    model = transformers.MixtralForCausalLM(config).eval()
    words = torch.randint(0, 20, (1, 6))
    network = asd.from_torch(model, {"input_ids": words})
    (logits,) = asd.compile(network, effort="none").run({"input_ids": words.numpy()}).values()
    with torch.no_grad():
        expected = model(words).logits
    torch.testing.assert_close(to_torch(logits), expected, rtol=1e-4, atol=1e-6)


def test_histograms_are_torchs() -> None:
    """The last interval has its end, and NaN counts nowhere."""
    x = torch.tensor([[NAN, 0.0, 3.0, 1.5, -0.1], [3.1, 2.2, 0.75, 0.74, 1.0]])
    _assert_same(lambda x: (x.histc(4, 0, 3), x.double().histc(7, 0.5, 2)), x)
    ends = torch.tensor([n / 100 * 0.6 + 0.1 for n in range(101)])
    _assert_same(lambda x: (x.histc(100, 0.1, 0.7), x.double().histc(37, 0.1, 0.7)), ends)


def test_scatters_that_reduce_are_torchs() -> None:
    """Means and products, of a tensor or a number, with what was there or without it."""
    torch.manual_seed(0)
    x, source, places = torch.randn(4, 3), torch.randn(3, 4), torch.tensor([[0, 2, 1], [1, 1, 0]])
    _assert_same(
        lambda x, source, places: (
            x.scatter_reduce(0, places, source, "mean"),
            x.scatter_reduce(0, places, source, "mean", include_self=False),
            x.scatter(0, places, source, reduce="add"),
            x.scatter(0, places, 2.5, reduce="multiply"),
        ),
        x, source, places,
    )  # fmt: skip


def test_slices_that_reduce_and_places_among_all_are_torchs() -> None:
    torch.manual_seed(0)
    x, places = torch.randn(4, 3), torch.tensor([2, 0, 2])
    _assert_same(
        lambda x, places: (
            *(x.index_reduce(0, places, x[1:], how) for how in ("mean", "amax", "prod")),
            x.index_reduce(-1, places, x, "amin", include_self=False),
            x.put(places * 3, x[0]),
            x.put(places - 5, x[0], accumulate=True),
        ),
        x, places,
    )  # fmt: skip


def test_masks_behind_other_dimensions_are_torchs() -> None:
    """Also where what is written has as many elements as are chosen."""

    def function(x: Any) -> tuple[Any, ...]:
        y, z = x.clone(), x.clone()
        y[:, x[0, :, 0] > 0] = 2.0
        z[:, x[0] > 0] *= 3
        return y, z

    _assert_same(function, torch.randn(3, 4, 5))


def test_angles_of_real_numbers_are_torchs() -> None:
    """That of NaN is NaN; the exporter writes 0."""
    x = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 2.0, -2.0])
    _assert_same(lambda x: (x.angle(), x.double().angle()), x)
    _assert_same(lambda i: (i.angle(),), torch.tensor([-1, 0, 3]))


def test_what_a_factor_of_0_leaves_out_may_be_no_number() -> None:
    """Models give memory that nobody has written."""
    a, b, nothing = torch.eye(3, 4), torch.ones(4, 2), torch.full((3, 2), NAN)
    _assert_same(
        lambda a, b, c: (
            torch.addmm(c, a, b, beta=0), torch.addmm(c, a, b, beta=0, alpha=3),
            torch.baddbmm(c[None], a[None], b[None], beta=0, alpha=0.5),
        ),
        a, b, nothing,
    )  # fmt: skip
    _assert_same(
        lambda a, b, c: (
            torch.addmm(c, a, b, beta=0), torch.addmv(c[:, 0], a, b[:, 0], beta=0, alpha=2),
            torch.addbmm(c, a[None], b[None], beta=0), torch.addbmm(b[:3], a[None], b[None]),
            torch.baddbmm(c[None], a[None], b[None], beta=0, alpha=2),
            torch.baddbmm(b[None, :3], a[None], b[None], beta=0.5), a.median(),
        ),
        a, b, nothing,
    )  # fmt: skip


def test_factors_of_16_bit_floats_may_be_wide_numbers_of_a_tensor() -> None:
    """Torch rounds the product, not the factor."""
    x, factor = torch.tensor([1.0, -0.5, 0.25, 1e-4]).half(), torch.tensor(80000.0)
    _assert_same(lambda x, f: (x * f, f * x, x / f, x * f.double()), x, factor)
    _assert_same(
        lambda x, f: (x * f, x / f, x * 8e4, f.double() * x, modules.scattered(x)), x, factor
    )
    factors = torch.tensor([100000, 100000, 2051, 3])  # several numbers are rounded
    _assert_same(lambda x, f: (x * f, f * x, x / f, f / x, x * f[0]), x, factors)


def test_running_logarithms_of_sums_do_not_overflow() -> None:
    x = torch.tensor([[-INF, -INF, 200.0, 201.0, -3.0], [1.0, 2.0, -INF, 90.0, 0.5]])
    _assert_same(lambda x: (x.logcumsumexp(1), x.logcumsumexp(0), x[0, 2].logcumsumexp(0)), x)


def test_distances_are_torchs() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(2, 4, 5), torch.randn(3, 5)
    _assert_same(
        lambda x, y: tuple(torch.cdist(x, y, p) for p in (0.0, 1.0, 2.0, 3.0, INF)),
        x,
        y,
        digits=1e-5,
    )  # fmt: skip


def test_bilinear_layers_are_torchs() -> None:
    torch.manual_seed(0)
    x, y, weight, bias = (
        torch.randn(2, 3, 4),
        torch.randn(2, 3, 5),
        torch.randn(6, 4, 5),
        torch.ones(6),
    )
    _assert_same(
        lambda *given: (functional.bilinear(*given), functional.bilinear(*given[:3])),
        x, y, weight, bias, digits=1e-5, least=1e-5,
    )  # fmt: skip


def test_sums_and_products_of_truth_values_are_torchs() -> None:
    a, b = torch.tensor([True, True, False]), torch.tensor([True, False, False])
    _assert_same(
        lambda a, b: (a + b, a * b, a + True, torch.maximum(a, b), torch.minimum(a, b)), a, b
    )


def test_truth_along_no_dimension_is_that_of_each_element() -> None:
    x, bytes_ = torch.tensor([[0.0, NAN], [2.0, -0.0]]), torch.tensor([0, 3], dtype=torch.uint8)
    _assert_same(
        lambda x, b: (x.any(()), x.all(()), b.any(()), b.all(()), (x > 0).any(()), x.sum(())),
        x, bytes_,
    )  # fmt: skip


def test_bounds_are_searched_as_torch_does() -> None:
    """Numbers at a bound belong to either side; NaN is behind all of them."""
    x, bounds = torch.tensor([[-3, -1, 0.5], [1, 4, NAN]]), torch.tensor([-1.0, 0.5, 1.0])

    def functions(x: Any, rows: Any) -> Any:
        return (
            torch.bucketize(x, bounds), torch.bucketize(x, bounds, right=True, out_int32=True),
            torch.searchsorted(rows, x), torch.searchsorted(rows, x, side="right"),
        )  # fmt: skip

    _assert_same(functions, x, torch.tensor([[-3.0, 0.5], [1.0, 4.0]]))


def test_distances_and_powers_of_2_are_torchs() -> None:
    x = torch.tensor([[-3, 0.5, 2], [1, -4, 0]])

    def functions(x: Any) -> Any:
        return torch.dist(x, x.flip(0)), torch.dist(x, x.flip(0), 1), x.exp2(), x.int().exp2()

    _assert_same(functions, x)

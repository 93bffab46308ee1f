"""Each operator of complex numbers within a module, next to what torch computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

import pytest

import autosched as asd
from autosched.graph.errors import ModelImportError
from autosched.graph.evaluate import evaluate
from autosched.torch_frontend import export
from autosched.torch_frontend.aten import NotTakenError
from autosched.torch_frontend.tensors import to_torch
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
functional = lazily("torch.nn.functional")
modules = lazily("tests.support.torch_complex_modules")
pytestmark = pytest.mark.usefixtures("torchlib")

Function = Callable[[Any, Any], Any]
SHAPES: Final = ((4, 4), (3, 4, 4))


def _written(z: Any, w: Any) -> Any:
    out = torch.zeros_like(z)
    out[..., :2, :3] = z[..., :2, :3]
    out[..., 2:, 1:] = 2 * z[..., 2:, 1:]
    return out


def _written_apart(z: Any, w: Any) -> Any:
    out = z.clone()
    out[..., ::2] = w[0, :2]
    out[..., 1, :] = 1.0
    return out


def _filled(z: Any, w: Any) -> Any:
    out = torch.full(z.shape, 1 - 2j)
    out[..., 0] = z[..., 1]
    return out + torch.zeros(4, dtype=torch.complex64) + torch.ones_like(z)


MOVED: Final[Mapping[str, Function]] = {
    "alias": lambda z, w: torch.ops.aten.alias(z),
    "select": lambda z, w: z[..., 1, :],
    "slice": lambda z, w: z[..., 1:, ::2],
    "expand": lambda z, w: w.expand(2, 3, 4, 4) * z,
    "unsqueeze": lambda z, w: z.unsqueeze(-2).squeeze(-2).unsqueeze(0),
    "reshape": lambda z, w: z.transpose(-1, -2).reshape(-1, 8).flatten(),
    "permute": lambda z, w: z.movedim(-1, 0),
    "repeat": lambda z, w: z.repeat(2, *[1] * z.dim()),
    "roll": lambda z, w: z.roll((1, 2), (-1, -2)),
    "flip": lambda z, w: z.flip(-1, -2),
    "cat": lambda z, w: torch.cat([z, z.real, z * 2], -1),
    "stack": lambda z, w: torch.stack([z, z.conj()]),
    "split": lambda z, w: torch.cat(z.split(2, -1)[::-1], -1) + torch.cat(z.chunk(2), 0),
    "index": lambda z, w: z[..., torch.tensor([2, 0, 1])],
    "gather": lambda z, w: z.gather(-1, torch.ones(z.shape, dtype=torch.int64)),
    "take": lambda z, w: z.index_select(-1, torch.tensor([3, 1])),
    "pad": lambda z, w: functional.pad(z, (1, 2)),
    "written": _written,
    "written apart": _written_apart,
    "filled": _filled,
    "where": lambda z, w: torch.where(z.real > 0, z, w),
    "masked": lambda z, w: z.masked_fill(z.imag > 0, 0.5),
    "triangle": lambda z, w: z.tril() + z.triu(1),
    "clone": lambda z, w: z.clone().detach().contiguous(),
    "shift": lambda z, w: torch.fft.ifftshift(torch.fft.fftshift(z, -1)),
    "unfold": lambda z, w: z.unfold(-1, 2, 1),
    "seen as": lambda z, w: (z.view(torch.float32) * 2).view(torch.complex64) + z.view(z.dtype),
}
COMPUTED: Final[Mapping[str, Function]] = {
    "add": lambda z, w: z + w + 1 + 2j,
    "add real": lambda z, w: z.abs() + z + z.real + 1j,
    "add alpha": lambda z, w: torch.add(z, w, alpha=3),
    "add complex alpha": lambda z, w: (
        torch.add(z, 2, alpha=1 + 1j) + torch.add(z, w.real, alpha=2j) - torch.sub(z, 1j, alpha=3j)
    ),
    "sub": lambda z, w: (z - w) - (1 - z) - (z - 2j),
    "neg": lambda z, w: -z,
    "mul": lambda z, w: z * w * 2 * (1 + 1j) * z.real,
    "mul number": lambda z, w: z.real * 2j,
    "div": lambda z, w: z / w / 2 / (1 + 1j) / (1 + z.real.abs()),
    "div real": lambda z, w: z.real / w + 1 / z + 1j / z,
    "conj": lambda z, w: z * z.conj(),
    "conj imag": lambda z, w: z.conj().imag + z.imag.conj(),
    "parts": lambda z, w: torch.complex(z.imag, z.real * 2),
    "abs": lambda z, w: z.abs(),
    "polar": lambda z, w: torch.polar(z.abs(), z.angle()),
    "exp": lambda z, w: torch.exp(z) + torch.exp(1j * z.real),
    "log": lambda z, w: torch.log(z),
    "log2": lambda z, w: z.log2() + z.log10(),
    "expm1": lambda z, w: z.expm1() + (z * 1e-6).expm1() * 1e6,
    "sqrt": lambda z, w: z.sqrt() + z**0.5,
    "pow": lambda z, w: z**3 + z**-1.5 + z.square(),
    "power of": lambda z, w: 2**z + w**z,
    "powers of 0": lambda z, w: (z - z) ** 2.5 + (z - z) ** 0 + (z - z) ** 1j.real,
    "powers of 0 by numbers": lambda z, w: torch.pow(0, torch.where(z.real > 0, z, 1)),
    "exp2": lambda z, w: z.exp2(),
    "log1p": lambda z, w: z.log1p() + (z * 1e-6).log1p() * 1e6,
    "sin": lambda z, w: z.sin() + z.cos(),
    "tan": lambda z, w: z.tan() + z.sinh() + z.cosh(),
    "asin": lambda z, w: z.asin() + z.acos() + 2 * z.atan(),
    "asinh": lambda z, w: z.asinh() + z.acosh() + 2 * z.atanh(),
    "tanh": lambda z, w: z.tanh() + z.sigmoid(),
    "sgn": lambda z, w: z.sgn(),
    "reciprocal": lambda z, w: z.reciprocal(),
    "sum": lambda z, w: z.sum() + z.sum(-1),
    "mean": lambda z, w: z.mean() + z.mean((-2, -1), keepdim=True),
    "cumsum": lambda z, w: z.cumsum(-1),
    "prod": lambda z, w: w.prod() * z.prod(-1, keepdim=True) + z[..., :3].prod(-2, True),
    "prod of nothing": lambda z, w: z[..., :0].prod(-1),
    "cumprod": lambda z, w: z.cumprod(-2),
    "var": lambda z, w: z.var(-1, keepdim=True) + z.std() + z.var(correction=0),
    "truth": lambda z, w: z.any(-1) & z.tril().all(-2) | z.triu().logical_not().any(),
    "norm": lambda z, w: torch.linalg.vector_norm(z, dim=-1),
    "equal": lambda z, w: (z == z.conj()) | (z != z),
    "to": lambda z, w: z.to(torch.complex128) + z.real.to(torch.complex64),
    "addcmul": lambda z, w: torch.addcmul(z, z, w, value=2),
    "matmul": lambda z, w: z @ w,
    "matmul real": lambda z, w: z.real.cfloat() @ w + z @ w.real.cfloat(),
    "linear": lambda z, w: functional.linear(z, w, w[0]),
    "einsum": lambda z, w: torch.einsum("...ij,jk,ik->...k", z, w, w),
    "addmv": lambda z, w: torch.addmv(w[0], w, w[1], alpha=2j) + z,
    "addbmm": lambda z, w: torch.addbmm(w, z.reshape(-1, 4, 4), z.reshape(-1, 4, 4), beta=0.5),
    "batched": lambda z, w: torch.einsum("...ij,...kj->...ik", z, z.conj()),
    "outer": lambda z, w: torch.outer(w[0], w[1]) + z,
    "view": lambda z, w: torch.view_as_complex(torch.view_as_real(z) * torch.view_as_real(w)),
}
TRANSFORMS: Final[Mapping[str, Function]] = {
    "fft": lambda fft, z: fft.fft(z) + fft.fft(z, dim=-2),
    "ifft": lambda fft, z: fft.ifft(z),
    "fft of real": lambda fft, z: fft.fft(z.real),
    "rfft": lambda fft, z: fft.rfft(z.imag),
    "padded": lambda fft, z: fft.rfft(z.real, n=7) + fft.rfft(z.real, n=6),
    "cut": lambda fft, z: fft.fft(z, n=3),
    "irfft": lambda fft, z: fft.irfft(z, n=6) + fft.irfft(z[..., :4, :]),
    "irfft odd": lambda fft, z: fft.irfft(z, n=7),
    "irfft short": lambda fft, z: fft.irfft(z, n=3),
    "irfft long": lambda fft, z: fft.irfft(z, n=12),
    "irfft of real": lambda fft, z: fft.irfft(z.real, n=6) + fft.hfft(z.imag, n=6),
    "irfftn of real": lambda fft, z: fft.irfftn(z.real, s=(1, 5, 3), dim=(-1, -2, -3)),
    "fft2": lambda fft, z: fft.fft2(z).real,
    "rfft2": lambda fft, z: fft.rfft2(z.real, s=(5, 6)),
    "irfft2": lambda fft, z: fft.irfft2(z, s=(4, 6)),
    "fftn": lambda fft, z: fft.ifftn(fft.fftn(z) * 2j),
    "rfftn": lambda fft, z: fft.irfftn(fft.rfftn(z.real), s=z.shape),
    "hfft": lambda fft, z: fft.hfft(z),
    "ihfft": lambda fft, z: fft.ihfft(z.real),
}
NO_FORM: Final[Mapping[str, Function]] = {
    "logcumsumexp": lambda z, w: z.logcumsumexp(-1).real,
    "nan_to_num": lambda z, w: z.nan_to_num().real,
    "det": lambda z, w: torch.linalg.det(z).real,
}
BESIDE_BRANCHES: Final = (
    "abs", "sqrt", "sigmoid", "asin", "atan", "asinh", "acosh", "atanh", "log1p",
)  # fmt: skip


@pytest.fixture
def without_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """All operators have converters of ours."""
    monkeypatch.setattr(export, "_onnx_model", None)


class _Normed:
    """``torch.fft`` with another default."""

    def __init__(self, norm: str) -> None:
        self._norm = norm

    def __getattr__(self, name: str) -> Any:
        function = getattr(torch.fft, name)
        return lambda *args, **more: function(*args, norm=self._norm, **more)


def _compared(function: Function, shape: tuple[int, ...]) -> None:
    class Module(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(4, 4, dtype=torch.complex64))

        def forward(self, x: Any) -> Any:
            result = function(torch.view_as_complex(x), self.w)
            return torch.view_as_real(result.resolve_conj()) if result.is_complex() else result

    torch.manual_seed(sum(shape))
    module, x = Module(), torch.randn(*shape, 2)
    network = asd.from_torch(module, x)
    assert not any(node.op.on_host for node in network.graph.nodes)
    (ours,) = evaluate(network.graph, {"x": x.numpy()}).values()
    with torch.no_grad():
        theirs = module(x)
    torch.testing.assert_close(to_torch(ours).to(theirs.dtype), theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("without_onnx")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", MOVED)
def test_moved(name: str, shape: tuple[int, ...]) -> None:
    _compared(MOVED[name], shape)


@pytest.mark.usefixtures("without_onnx")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", COMPUTED)
def test_computed(name: str, shape: tuple[int, ...]) -> None:
    _compared(COMPUTED[name], shape)


@pytest.mark.usefixtures("without_onnx")
@pytest.mark.parametrize("norm", ["forward", "backward", "ortho"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transformed(name: str, norm: str) -> None:
    def transform(z: Any, w: Any) -> Any:
        return TRANSFORMS[name](_Normed(norm), z)

    _compared(transform, (3, 4, 4))


def test_what_has_no_form_for_complex_numbers_is_refused() -> None:
    """The way through ONNX knows some more; what is meant for real numbers does not take them."""
    for name in ("logcumsumexp", "nan_to_num", "det"):
        with pytest.raises(ModelImportError, match=r"has no form for complex|cannot export"):
            _compared(NO_FORM[name], (4, 4))
    with pytest.raises(ModelImportError, match=r"logcumsumexp.* has no form for complex numbers"):
        _compared(NO_FORM["logcumsumexp"], (4, 4))


@pytest.mark.parametrize("name", BESIDE_BRANCHES)
def test_numbers_of_all_sizes(name: str) -> None:
    """Beside branch points and cuts, and where squares are too large or too small."""

    class Module(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            found = getattr(torch, name)(torch.view_as_complex(x))
            return torch.view_as_real(found) if found.is_complex() else found

    parts = torch.tensor([0.0, -0.0, 1e-25, -1e-25, 0.3, 1.0, -1.0, 30.0, -700.0, 1e15])
    x = torch.cartesian_prod(parts, parts)
    network = asd.from_torch(Module(), x)
    module = asd.compile(network, effort="none", denormals="keep")
    (ours,) = module.run({network.inputs[0].name: x.numpy()}).values()
    theirs = Module()(x)
    known = theirs.isfinite()
    torch.testing.assert_close(to_torch(ours)[known], theirs[known], rtol=2e-6, atol=0)


@pytest.mark.usefixtures("without_onnx")
def test_transforms_of_real_numbers_to_real_ones_are_kernels() -> None:
    """In such a graph no tensor is complex but within an operator."""

    class Module(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            whole = torch.fft.irfftn(x, s=(1, 5, 3), dim=(-1, 1, -3), norm="forward")
            return whole.sum() + torch.fft.hfft2(x, s=(3, 8)) * torch.fft.irfft2(x, s=(3, 8))

    x = torch.randn(4, 3, 5)
    network = asd.from_torch(Module(), x)
    assert not any(node.op.on_host for node in network.graph.nodes)
    (ours,) = evaluate(network.graph, {"x": x.numpy()}).values()
    torch.testing.assert_close(to_torch(ours).float(), Module()(x), rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("without_onnx")
@pytest.mark.parametrize("length", [2, 4, 6, 16, 30])
def test_the_middle_of_a_real_signals_spectrum_is_real(length: int) -> None:
    """Its angle is 0 or pi, never minus pi."""

    class Module(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return torch.fft.rfft(x)[..., length // 2].angle()

    x = torch.randn(64, length)
    (ours,) = evaluate(asd.from_torch(Module(), x).graph, {"x": x.numpy()}).values()
    torch.testing.assert_close(to_torch(ours).float(), Module()(x))


@pytest.mark.parametrize("name", ["irfft odd", "irfft2", "rfft2", "ifft", "cut"])
def test_transformed_through_onnx(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with operators that have no converter of ours."""

    def not_taken(*_: Any) -> Any:
        raise NotTakenError("by this test")

    monkeypatch.setattr(export, "network_of_program", not_taken)
    _compared(lambda z, w: TRANSFORMS[name](torch.fft, z), (3, 4, 4))


def test_complex_constants_and_inputs_by_name_through_onnx() -> None:
    """A diagonal has no converter of ours."""
    _compared(lambda z, w: (z @ w).diagonal(dim1=-2, dim2=-1) * torch.tensor([1j, 2, 3, 4]), (4, 4))


@pytest.mark.usefixtures("without_onnx")
@pytest.mark.parametrize("seed", range(8))
def test_parts_of_spectra_and_numbers_among_zeros(seed: int) -> None:
    """Shifted, cut, written to two places, shifted again and transformed back."""
    draw = Random(seed)
    axes = draw.sample((-2, -1), draw.randint(1, 2))
    shifts = [draw.randint(-5, 5) for _ in axes]
    start, extent = draw.randint(0, 2), draw.randint(1, 2)
    rows, columns = draw.randint(0, 4 - extent), draw.randint(0, 2)

    def function(z: Any, w: Any) -> Any:
        found = torch.fft.fftn(z, dim=axes).roll(shifts, axes)
        part = found[..., start : start + extent, :3] * w[0, :3]
        mixed = torch.zeros(3, 6, 5, dtype=torch.complex64)
        mixed[:, rows : rows + extent, columns : columns + 3] = part
        mixed[:, 5:, columns : columns + 3] = part[:, :1] * 1j
        mixed = mixed.roll(shifts, axes)
        real = torch.fft.irfft(torch.fft.ifft(mixed, dim=-2), n=8)
        return torch.fft.ifftn(mixed, dim=axes) + real[..., :5]

    _compared(function, (3, 4, 4))


@pytest.mark.usefixtures("without_onnx")
def test_transforms_compute_what_is_read_alone() -> None:
    """4 of 9 columns, 6 of 12 rows, from the middle, and back."""
    layer = modules.ShiftedFourierLayer()
    graph = asd.from_torch(layer, torch.randn(layer.shape)).graph
    shapes = {constant.shape for constant in graph.constants.values() if constant.ndim == 2}
    assert shapes == {(16, 4 * 2), (12 * 2, 6 * 2), (6 * 2, 12 * 2), (4 * 2, 16)}

"""Modules of PyTorch with complex numbers inside; who imports this file loads torch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class FourierLayer(nn.Module):  # type: ignore[misc]
    """Of a neural operator: low frequencies, from both ends of one dimension."""

    shape = (2, 3, 12, 16)

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(3, 5, 4, 4, dtype=torch.complex64))
        self.last = nn.Parameter(torch.randn(3, 5, 4, 4, dtype=torch.complex64))

    def forward(self, x: Any) -> Any:
        found = torch.fft.rfft2(x)
        mixed = torch.zeros(2, 5, 12, 9, dtype=torch.complex64)
        mixed[:, :, :4, :4] = torch.einsum("bixy,ioxy->boxy", found[:, :, :4, :4], self.first)
        mixed[:, :, -4:, :4] = torch.einsum("bixy,ioxy->boxy", found[:, :, -4:, :4], self.last)
        return torch.fft.irfft2(mixed, s=x.shape[-2:])


class ShiftedFourierLayer(nn.Module):  # type: ignore[misc]
    """Of a neural operator: low frequencies are in the middle."""

    shape = (2, 3, 12, 16)

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 5, 6, 4, dtype=torch.complex64))

    def forward(self, x: Any) -> Any:
        found = torch.fft.fftshift(torch.fft.rfftn(x, dim=(-2, -1), norm="forward"), dim=-2)
        mixed = torch.zeros(2, 5, 12, 9, dtype=torch.complex64)
        part = found[..., 3:9, :4]
        mixed[..., 3:9, :4] = torch.einsum("becd,efcd->bfcd", part, self.weight)
        shifted = torch.fft.ifftshift(mixed, dim=-2)
        return torch.fft.irfftn(shifted, x.shape[-2:], dim=(-2, -1), norm="forward")


class FourierMixing(nn.Module):  # type: ignore[misc]
    """Of an FNet."""

    shape = (2, 12, 32)

    def forward(self, x: Any) -> Any:
        return functional.layer_norm(x + torch.fft.fft2(x).real, x.shape[-1:])


class GlobalFilter(nn.Module):  # type: ignore[misc]
    """Of a GFNet."""

    shape = (2, 64, 6)

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 5, 6, 2))

    def forward(self, x: Any) -> Any:
        maps = torch.fft.rfft2(x.view(2, 8, 8, 6), dim=(1, 2), norm="ortho")
        maps = maps * torch.view_as_complex(self.weight)
        return torch.fft.irfft2(maps, s=(8, 8), dim=(1, 2), norm="ortho").reshape(x.shape)


class Denoiser(nn.Module):  # type: ignore[misc]
    """A mask for the spectrum of each frame."""

    shape = (2, 400)

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(48))
        self.mask = nn.Linear(33, 33)

    def forward(self, x: Any) -> Any:
        found = torch.stft(x, 64, 24, 48, window=self.window, return_complex=True)
        mask = self.mask(found.abs().mT).sigmoid().mT
        return torch.istft(found * mask, 64, 24, 48, window=self.window, length=380)


class Rotary(nn.Module):  # type: ignore[misc]
    """Pairs of numbers turned by their positions, as in Llama."""

    shape = (2, 7, 3, 8)

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(7.0), 10000 ** -(torch.arange(4) / 4))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: Any) -> Any:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        turned = pairs * self.turns.view(1, 7, 1, 4)
        return torch.view_as_real(turned).flatten(3).type_as(x)


class StateSpace(nn.Module):  # type: ignore[misc]
    """Of an S4D: the kernel of a convolution is made of complex parameters."""

    shape = (2, 4, 24)

    def __init__(self) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.rand(4) - 3)
        self.poles = nn.Parameter(-0.5 + 1j * math.pi * torch.arange(6).repeat(4, 1))
        self.weight = nn.Parameter(torch.randn(4, 6, dtype=torch.complex64))

    def forward(self, x: Any) -> Any:
        length = x.shape[-1]
        steps = self.poles * self.rate.exp()[:, None]
        weight = self.weight * (steps.exp() - 1) / self.poles
        waves = (steps[..., None] * torch.arange(length)).exp()
        kernel = 2 * torch.einsum("hn,hnl->hl", weight, waves).real
        found = torch.fft.rfft(x, n=2 * length) * torch.fft.rfft(kernel, n=2 * length)
        return torch.fft.irfft(found, n=2 * length)[..., :length]

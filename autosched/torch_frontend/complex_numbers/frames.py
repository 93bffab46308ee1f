"""Short-time Fourier transforms in terms of others, without writing in place as torch does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def short_time_functions() -> Mapping[Any, Callable[..., Any]]:
    """ATen operators and the functions to trace in their place."""
    import torch

    aten = torch.ops.aten
    return {
        aten.stft.center: _transforms,
        aten.stft.default: _without_edges,
        aten.istft.default: aten.istft.default.decompose,
    }


def frame_functions() -> Mapping[Any, Callable[..., Any]]:
    """Those of operators that torch has in its own decompositions."""
    import torch

    aten = torch.ops.aten
    return {aten.unfold.default: _frames, aten.unfold_backward.default: _overlapping_sum}


def _frames(x: Any, dim: int, size: int, step: int) -> Any:
    """Windows of a dimension, as a last one."""
    import torch

    axis = dim % x.dim()
    count = 1 + (x.shape[axis] - size) // step
    places = torch.arange(count).unsqueeze(1) * step + torch.arange(size)
    rows = x.index_select(axis, places.flatten())
    shape = [*x.shape[:axis], count, size, *x.shape[axis + 1 :]]
    return rows.reshape(shape).movedim(axis + 1, -1)


def _overlapping_sum(x: Any, input_sizes: Sequence[int], dim: int, size: int, step: int) -> Any:
    """The opposite: each step's part of all windows is one signal."""
    import torch

    axis, extent = dim % len(input_sizes), input_sizes[dim]
    windows = x.movedim((axis, -1), (-2, -1))
    count, parts = windows.shape[-2], -(-size // step)
    windows = torch.nn.functional.pad(windows, (0, parts * step - size))
    total: Any = 0
    for part in range(parts):
        piece = windows.narrow(-1, part * step, step).flatten(-2)
        total = total + torch.nn.functional.pad(piece, (part * step, (parts - 1 - part) * step))
    length = (count - 1 + parts) * step
    total = total.narrow(-1, 0, min(extent, length))
    total = torch.nn.functional.pad(total, (0, max(extent - length, 0))).movedim(-1, axis)
    return total.expand(input_sizes)  # torch gives windows of one row for several


def _without_edges(x: Any, n_fft: int, *rest: Any, **more: Any) -> Any:
    names = ("hop_length", "win_length", "window", "normalized", "onesided", "return_complex")
    return _transforms(x, n_fft, center=False, **dict(zip(names, rest, strict=False)), **more)


def _transforms(
    x: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """Frames, multiplied with a window, and the transform of each."""
    import torch

    alone = x.dim() == 1
    rows = x.unsqueeze(0) if alone else x
    if center:
        edges = [n_fft // 2] * 2
        rows = torch.nn.functional.pad(rows.unsqueeze(0), edges, pad_mode).squeeze(0)
    hop, own = hop_length or n_fft // 4, win_length or n_fft
    if window is None and own < n_fft:
        window = torch.ones(own, dtype=x.dtype)
    if window is not None and own < n_fft:
        left = (n_fft - own) // 2
        window = torch.nn.functional.pad(window, [left, n_fft - own - left])
    if align_to_window and not center:
        rows = torch.nn.functional.pad(rows, [(n_fft - own) // 2] * 2)
    frames = _frames(rows, 1, n_fft, hop)
    frames = frames if window is None else frames * window
    norm = "ortho" if normalized else None
    one_side = not frames.is_complex() if onesided is None else onesided
    found = (torch.fft.rfft if one_side else torch.fft.fft)(frames, norm=norm).transpose(1, 2)
    found = found.squeeze(0) if alone else found
    return torch.view_as_real(found) if return_complex is False else found

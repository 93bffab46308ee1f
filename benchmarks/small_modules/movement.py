"""Elements that change their places: layouts, padding, gathers, scatters, resampling."""

from __future__ import annotations

from typing import Any, Final

import torch
import torch.nn.functional as F

from benchmarks.small_modules.case import Case, case, normal, order, share, weight, whole

_ROWS: Final = (256, 1024)
_IMAGE: Final = (1, 64, 56, 56)
_WINDOWS: Final = (1, 56, 56, 96)


def _layouts() -> list[Case]:
    return [
        case("transpose", lambda x: x.T.contiguous(), normal(*_ROWS)),
        case("to_channels_last", lambda x: x.permute(0, 2, 3, 1).contiguous(), normal(*_IMAGE)),
        case("to_channels_first", lambda x: x.permute(0, 3, 1, 2).contiguous(), normal(*_WINDOWS)),
        case("split_heads", lambda x: x.view(1, 256, 8, 64).transpose(1, 2).contiguous(),
             normal(1, 256, 512)),
        case("merge_heads", lambda x: x.transpose(1, 2).reshape(1, 256, 512),
             normal(1, 8, 256, 64)),
        case("flip_rows", lambda x: x.flip(1), normal(*_ROWS)),
        case("flip_columns", lambda x: x.flip(0), normal(*_ROWS)),
        case("roll", lambda x: x.roll(5, 1), normal(*_ROWS)),
        case("rotate_90", lambda x: torch.rot90(x, 1, (2, 3)), normal(*_IMAGE)),
        case("lower_triangle", torch.tril, normal(*_ROWS)),
        case("diagonal", lambda x: x.diagonal() * 2, normal(*_ROWS)),
        case("concatenate", lambda x, y: torch.cat([x, y], 1), normal(*_ROWS), normal(*_ROWS)),
        case("concatenate_channels", lambda x, y: torch.cat([x, y], 1), normal(*_IMAGE),
             normal(*_IMAGE)),
        case("stack_last", lambda x, y: torch.stack([x, y], -1), normal(*_ROWS), normal(*_ROWS)),
        case("repeat", lambda x: x.repeat(1, 3), normal(*_ROWS)),
        case("repeat_interleave", lambda x: x.repeat_interleave(3, 1), normal(*_ROWS)),
        case("expand", lambda x: x[:, None].expand(-1, 4, -1).contiguous(), normal(*_ROWS)),
        case("every_second", lambda x: x[:, ::2] * 1, normal(*_ROWS)),
        case("every_second_row", lambda x: x[::2] * 1, normal(*_ROWS)),
        case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), normal(*_IMAGE)),
        case("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), normal(*_IMAGE)),
        case("channel_shuffle", lambda x: F.channel_shuffle(x, 4), normal(*_IMAGE)),
        case("unfold", lambda x: F.unfold(x, 3, padding=1), normal(*_IMAGE)),
        case("fold", lambda x: F.fold(x, (56, 56), 3, padding=1), normal(1, 576, 3136)),
        case("frames", lambda x: x.unfold(1, 400, 160).contiguous(), normal(1, 16000)),
    ]  # fmt: skip


def _padded() -> list[Case]:
    return [
        case("pad_zeros", lambda x: F.pad(x, (1, 1, 1, 1)), normal(*_IMAGE)),
        case("pad_reflect", lambda x: F.pad(x, (2, 2, 2, 2), mode="reflect"), normal(*_IMAGE)),
        case("pad_replicate", lambda x: F.pad(x, (2, 2, 2, 2), mode="replicate"), normal(*_IMAGE)),
        case("pad_circular", lambda x: F.pad(x, (2, 2, 2, 2), mode="circular"), normal(*_IMAGE)),
        case("pad_rows", lambda x: F.pad(x, (3, 5)), normal(*_ROWS)),
        case("window_partition", _partitioned, normal(*_WINDOWS)),
        case("window_roll_partition", lambda x: _partitioned(torch.roll(x, (-3, -3), (1, 2))),
             normal(*_WINDOWS)),
        case("temporal_shift",
             lambda x: torch.cat([F.pad(x[1:, :8], (0, 0, 0, 0, 0, 0, 0, 1)),
                                  F.pad(x[:-1, 8:16], (0, 0, 0, 0, 0, 0, 1, 0)), x[:, 16:]], 1),
             normal(8, 64, 28, 28)),
    ]  # fmt: skip


def _partitioned(x: Any) -> Any:
    return x.view(1, 8, 7, 8, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(64, 49, 96) * 1.5


def _resampled() -> list[Case]:
    def scaled(mode: str) -> Any:
        return lambda x: F.interpolate(x, scale_factor=2.0, mode=mode)

    video = normal(1, 32, 16, 28, 28)
    return [
        case("nearest_2x", scaled("nearest"), normal(*_IMAGE)),
        case("bilinear_2x", scaled("bilinear"), normal(*_IMAGE)),
        case("bicubic_2x", scaled("bicubic"), normal(*_IMAGE)),
        case("bilinear_corners", lambda x: F.interpolate(x, (111, 111), mode="bilinear",
             align_corners=True), normal(*_IMAGE)),
        case("bilinear_down", lambda x: F.interpolate(x, (20, 20), mode="bilinear",
             antialias=True), normal(*_IMAGE)),
        case("area_down", lambda x: F.interpolate(x, (28, 28), mode="area"), normal(*_IMAGE)),
        case("linear_2x", scaled("linear"), normal(1, 128, 2000)),
        case("trilinear_2x", scaled("trilinear"), video),
        case("grid_sample", lambda x, g: F.grid_sample(x, g * 2 - 1, align_corners=False),
             normal(*_IMAGE), share(1, 56, 56, 2)),
        case("affine_grid", lambda t: F.affine_grid(t, [1, 64, 56, 56], align_corners=False),
             normal(1, 2, 3)),
    ]  # fmt: skip


def _indexed() -> list[Case]:
    table = weight(1000, 64)
    return [
        case("index_rows", lambda x, i: x[i], normal(*_ROWS), whole(256, 300)),
        case("index_columns", lambda x, i: x[:, i], normal(*_ROWS), whole(1024, 300)),
        case("embedding", lambda i, x: F.embedding(i, x), whole(1000, *_ROWS), table),
        case("embedding_bag", lambda x, i: x[i].mean(1), normal(10000, 64), whole(10000, 128, 20)),
        case("gather_rows", lambda x, i: x.gather(1, i), normal(*_ROWS), whole(1024, *_ROWS)),
        case("gather_columns", lambda x, i: x.gather(0, i), normal(*_ROWS), whole(256, *_ROWS)),
        case("scatter_rows", lambda x, i: torch.zeros(_ROWS).scatter(1, i, x.float()).to(x),
             normal(*_ROWS), whole(1024, *_ROWS)),
        case("scatter_add", lambda x, i: torch.zeros_like(x).scatter_add(0, i, x), normal(*_ROWS),
             whole(256, *_ROWS)),
        case("index_add", lambda x, y, i: x.index_add(0, i, y), normal(*_ROWS),
             normal(300, 1024), whole(256, 300)),
        case("index_put", lambda x, y, i: x.index_put((i,), y), normal(*_ROWS), normal(256, 1024),
             order(256)),
        case("one_hot", lambda i: F.one_hot(i, 1000).float(), whole(1000, 512)),
        case("one_hot_product", lambda i, w: F.one_hot(i, 100).to(w) @ w, whole(100, 512),
             normal(100, 64)),
        case("masked_fill", lambda x, i: x.masked_fill(i > 500, -1.0), normal(*_ROWS),
             whole(1000, *_ROWS)),
        case("bucketize", lambda x, e: torch.bucketize(x, e.cumsum(0)), normal(*_ROWS), share(64)),
        case("cache_update", lambda c, x, i: c.index_copy(2, i, x), normal(1, 8, 512, 64),
             normal(1, 8, 1, 64), whole(512, 1)),
        case("expert_gather", lambda i, x, w: torch.einsum("td,tdo->to", x, w[i]),
             whole(8, 16), normal(16, 128), weight(8, 128, 128)),
    ]  # fmt: skip


def cases() -> list[Case]:
    """All of them."""
    return [*_layouts(), *_padded(), *_resampled(), *_indexed()]

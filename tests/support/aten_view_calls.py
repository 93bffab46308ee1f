"""Calls of ATen operators that resize, or read and write known positions; loads torch."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.nn import functional

from tests.support.aten_inputs import MAPS, VOLUMES, Calls, X, numbers

aten = torch.ops.aten
ROWS: Final = MAPS[:, :, 0]


def _larger(mode: str, aligned: bool | None = None) -> Any:
    """To a size, and by a factor that fits none."""

    def resized(x: Any) -> tuple[Any, ...]:
        how = {"mode": mode, "align_corners": aligned}
        sizes = ((7,), (5, 9), (7, 4, 5))[x.dim() - 3]
        return (
            functional.interpolate(x, sizes, **how),
            functional.interpolate(x, scale_factor=1.7, **how),
        )

    return resized


def _both(mode: str) -> Any:
    """With aligned corners and without."""
    return lambda x: (*_larger(mode, True)(x), *_larger(mode, False)(x))


def _smaller(mode: str) -> Any:
    return lambda x: functional.interpolate(x, (5, 4), mode=mode, antialias=True)


def _sampled(*modes: int) -> Any:
    """In all ways outside, with aligned corners and without."""

    def sampled(x: Any, points: Any) -> tuple[Any, ...]:
        return tuple(
            torch.grid_sampler(x, points, mode, outside, aligned)
            for mode in modes
            for outside in range(3)
            for aligned in (False, True)
            if mode < 2 or outside != 1  # the exporter writes other values
        )

    return sampled


SAMPLING: Final[Calls] = {
    "_upsample_bicubic2d_aa.default": (_smaller("bicubic"), (MAPS,)),
    "_upsample_bilinear2d_aa.default": (_smaller("bilinear"), (MAPS,)),
    "_upsample_nearest_exact1d.default": (_larger("nearest-exact"), (ROWS,)),
    "_upsample_nearest_exact2d.default": (_larger("nearest-exact"), (MAPS,)),
    "_upsample_nearest_exact3d.default": (_larger("nearest-exact"), (VOLUMES,)),
    "grid_sampler_2d.default": (_sampled(0, 1, 2), (MAPS, numbers(2, 3, 4, 2))),
    "grid_sampler_3d.default": (_sampled(0, 1), (VOLUMES, numbers(1, 3, 2, 4, 3))),
    "upsample_bicubic2d.default": (_both("bicubic"), (MAPS,)),
    "upsample_bilinear2d.default": (_both("bilinear"), (MAPS,)),
    "upsample_linear1d.default": (_both("linear"), (ROWS,)),
    "upsample_nearest1d.default": (_larger("nearest"), (ROWS,)),
    "upsample_nearest2d.default": (_larger("nearest"), (MAPS,)),
    "upsample_nearest3d.default": (_larger("nearest"), (VOLUMES,)),
    "upsample_trilinear3d.default": (_both("trilinear"), (VOLUMES,)),
}
VIEWS: Final[Calls] = {
    "as_strided.default": (
        lambda x: (
            x.as_strided((3, 2, 4), (5, 1, 3), 2),
            x.as_strided((6, 3), (3, 1), 18),
            x.as_strided((), ()),
        ),
        (X,),
    ),
    "diagonal.default": (lambda x: (x.diagonal(), x.diagonal(-2, 2, -1)), (X,)),
    "diagonal_scatter.default": (
        lambda x: torch.diagonal_scatter(x, x[:, :, 0, :2] * 2, 1, 2, 3),
        (X,),
    ),
    "narrow_copy.default": (lambda x: torch.narrow_copy(x, -2, 2, 3), (X,)),
    "slice_scatter.default": (
        lambda x: (
            x.slice_scatter(x[:, :2] * 2, 1, 1, 3),
            x.slice_scatter(x[:, :, :3] * 2, -2, 1, 100, 2),
            x.slice_scatter(x + 1),
        ),
        (X,),
    ),
    "unfold.default": (lambda x: (x.unfold(2, 3, 2), x.unfold(-1, 2, 1).unfold(1, 4, 1)), (X,)),
}

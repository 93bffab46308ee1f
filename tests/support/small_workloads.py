"""Small sizes of the built-in workloads: primes and extents below the tile, all kinds of tails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SMALL: Final[Mapping[str, tuple[int, ...]]] = {
    "C1D": (2, 11, 3, 19, 3, 2, 1),
    "C2D": (1, 7, 5, 6, 21, 3, 1, 1),
    "C3D": (1, 4, 5, 3, 3, 18, 3, 2, 1),
    "GMM": (2, 7, 19, 11),
    "GRP": (1, 5, 6, 8, 36, 3, 2, 1, 1, 4),
    "DIL": (1, 7, 8, 4, 17, 3, 1, 2, 2),
    "DEP": (1, 9, 7, 19, 3, 2, 1),
    "T2D": (1, 3, 5, 6, 18, 3, 2, 1, 1),
    "CAP": (1, 5, 4, 3, 17, 3, 2, 1),
    "NRM": (2, 13, 37),
    "SFM": (2, 5, 37),
    "CBR": (1, 6, 7, 5, 19, 3, 2, 1),
    "TBMM": (2, 13, 3, 7),
}

"""The networks that are compared with other runtimes, and what each has to reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from autosched import zoo

EAGER_BAR: Final = 1.0
SUM_BAR_PERCENT: Final = 10.0
RESIDUAL_BAR_PERCENT: Final = 5.0


@dataclass(frozen=True, slots=True)
class Case:
    """One network, at batch 1 and its own default size.

    Attributes:
        ratio_bar: what ``ratio_low`` (fastest rival / ours) has to reach.
        tolerance: largest error relative to the largest output of onnxruntime.
    """

    name: str
    ratio_bar: float
    tolerance: float = 1e-5

    def bars(self, row: dict[str, Any]) -> dict[str, bool]:
        """Each bar and whether ``row`` reaches it; an incomplete row reaches none."""
        eager = row.get("ratios", {}).get("torch_eager", {}).get("ratio_low", 0.0)
        gap = abs(row["sum_of_tasks_ms"] / row["ours_ms"] - 1.0) * 100.0
        residual = row["profile_residual_percent"]
        checks = {
            f"ratio_low >= {self.ratio_bar:g}": row.get("ratio_low", 0.0) >= self.ratio_bar,
            f"ratio_low to torch_eager >= {EAGER_BAR:g}": eager >= EAGER_BAR,
            f"error <= {self.tolerance:g}": row["max_error"] <= self.tolerance,
            f"sum of tasks within {SUM_BAR_PERCENT:g} %": gap <= SUM_BAR_PERCENT,
            f"profile residual <= {RESIDUAL_BAR_PERCENT:g} %": residual <= RESIDUAL_BAR_PERCENT,
        }
        return {what: bool(holds and not row["flags"]) for what, holds in checks.items()}


def flags(row: dict[str, Any]) -> list[str]:
    """Why a row counts for nothing: schedules that nobody measured, operators on the host."""
    found = []
    if row["kernels_without_record"]:
        found.append(f"{row['kernels_without_record']} kernels without a record")
    if row["host_operators"]:
        found.append(f"{row['host_operators']} operators on the host")
    return found


_BARS: Final = {
    "resnet-18": 0.95,
    "resnet-50": 0.95,
    "vgg-16": 0.9,
    "inception-v3": 0.8,
    "mobilenet-v2": 0.8,
    "squeezenet-1.1": 0.8,
    "resnet3d-18": 0.9,
    "dcgan": 0.8,
    "dla-34": 0.9,
    "bert-base": 0.8,
}
# Where float32 itself leaves more than 1e-5 between two runtimes that sum in other orders.
_TOLERANCES: Final = {"inception-v3": 1e-4, "dla-34": 1e-4}
CASES: Final = {
    name: Case(name, bar, _TOLERANCES.get(name, 1e-5))
    for name, bar in _BARS.items()
    if name in zoo.NAMES
}

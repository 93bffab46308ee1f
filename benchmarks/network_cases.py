"""The networks that are compared with other runtimes, and what each has to reach."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from autosched import zoo

EAGER_BAR: Final = 1.0
SUM_BAR_PERCENT: Final = 3.0
RESIDUAL_BAR_PERCENT: Final = 2.0
ERROR_BAR: Final = 2e-5
BATCHED_BAR: Final = 1.1


@dataclass(frozen=True, slots=True)
class Case:
    """One network of the zoo, at its own default size.

    Attributes:
        name: of the network.
        ratio_bar: what ``ratio_low`` (fastest rival / ours) has to reach.
        batch: images, or sequences, of a run.
    """

    name: str
    ratio_bar: float
    batch: int = 1

    @property
    def label(self) -> str:
        """The name of the row, and of the log."""
        return self.name if self.batch == 1 else f"{self.name}.batch{self.batch}"

    def batched(self, batch: int) -> Case:
        """The same network with another batch."""
        return self if batch == 1 else replace(self, batch=batch, ratio_bar=BATCHED_BAR)

    def bars(self, row: dict[str, Any]) -> dict[str, bool]:
        """Each bar and whether ``row`` reaches it; an incomplete row reaches none."""
        eager = row.get("ratios", {}).get("torch_eager", {}).get("ratio_low", 0.0)
        gap = abs(row["sum_of_tasks"] - 1.0) * 100.0
        residual = row["profile_residual_percent"]
        checks = {
            f"ratio_low >= {self.ratio_bar:g}": row.get("ratio_low", 0.0) >= self.ratio_bar,
            f"ratio_low to torch_eager >= {EAGER_BAR:g}": eager >= EAGER_BAR,
            f"error <= {ERROR_BAR:g}": row["max_error"] <= ERROR_BAR,
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
    "resnet-18": 1.7,
    "resnet-50": 1.3,
    "vgg-16": 1.9,
    "inception-v3": 1.4,
    "mobilenet-v2": 1.25,
    "squeezenet-1.1": 1.25,
    "resnet3d-18": 1.7,
    "dcgan": 1.6,
    "dla-34": 1.7,
    "bert-base": 1.12,
}
CASES: Final = {name: Case(name, bar) for name, bar in _BARS.items() if name in zoo.NAMES}

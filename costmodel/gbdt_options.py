"""Options of the gradient-boosted trees; reading them does not load LightGBM."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from costmodel.errors import CostModelError

_LEAST: Final = {
    "trees": 1,
    "least_trees": 1,
    "tree_programs": 1,
    "more_trees": 1,
    "leaves": 2,
    "bins": 2,
    "bin_rows": 2,
    "most_programs": 2,
}


@dataclass(frozen=True, slots=True)
class GbdtOptions:
    """How the trees are grown.

    Attributes:
        trees: of a model that is trained from scratch on very many programs.
        least_trees: on very few, where more rank no better and cost time.
        tree_programs: so many programs allow one tree more.
        more_trees: added by an update that continues.
        tree_limit: a model that would grow beyond it is trained from scratch.
        scratch_programs: below it every update trains from scratch (about a second).
        most_programs: an update learns from so many at most, the last half of them the newest: it
            must not take longer the longer a run is.
        bin_rows: the bins of a feature are chosen by so many rows at most.
        leaves, learning_rate, bins, least_rows, l2, least_hessian: of LightGBM; few leaves predict
            fast.
        weight_power: a program weighs (best / time) ** weight_power.
        least_programs: fewer successes leave the model as it is.
        threads: of training; predictions use one.
        seed: of LightGBM; nothing is sampled, so it only breaks ties.
        process_share: part of a search's ranking that a Gaussian process over the decisions of each
            task has (``costmodel.decision_process``), from 0 to 1.
        on_draft: whether the trees correct the draft model's time of a statement; else they predict
            the time itself.
    """

    trees: int = 100
    least_trees: int = 25
    tree_programs: int = 40
    more_trees: int = 20
    tree_limit: int = 200
    scratch_programs: int = 5000
    most_programs: int = 8192
    leaves: int = 16
    learning_rate: float = 0.2
    bins: int = 63
    bin_rows: int = 4096
    least_rows: int = 5
    l2: float = 1.0
    least_hessian: float = 1e-3
    weight_power: float = 0.7
    least_programs: int = 8
    threads: int = 1
    seed: int = 7
    process_share: float = 0.5
    on_draft: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.on_draft, bool):
            raise CostModelError(
                f"option on_draft is {self.on_draft!r}", "GbdtOptions", "give True or False"
            )
        for item in fields(self)[:-1]:
            value, least = getattr(self, item.name), _LEAST.get(item.name, 0)
            kinds = (int,) if isinstance(item.default, int) else (int, float)
            right = isinstance(value, kinds) and not isinstance(value, bool)
            if not right or not least <= value < 1 << 31:
                kind = "an integer" if kinds == (int,) else "a number"
                hint = f"give {kind}, at least {least} and below 2**31"
                raise CostModelError(f"option {item.name} is {value!r}", "GbdtOptions", hint)

        if self.process_share > 1:
            raise CostModelError(
                f"option process_share is {self.process_share!r}", "GbdtOptions",
                "give a number from 0 to 1",
            )  # fmt: skip

    def scratch_trees(self, programs: int) -> int:
        """Trees of a model that is trained from scratch on ``programs``."""
        return min(self.trees, self.least_trees + programs // self.tree_programs)

    def parameters(self) -> dict[str, Any]:
        """LightGBM's names of the options."""
        return {
            "num_leaves": self.leaves, "learning_rate": self.learning_rate, "max_bin": self.bins,
            "min_data_in_leaf": self.least_rows, "lambda_l2": self.l2,
            "min_sum_hessian_in_leaf": self.least_hessian, "num_threads": self.threads,
            "seed": self.seed, "deterministic": True, "force_row_wise": True, "verbosity": -1,
            "feature_pre_filter": False, "bin_construct_sample_cnt": self.bin_rows,
        }  # fmt: skip


PRETRAINED: Final = GbdtOptions(
    trees=200, least_trees=60, tree_programs=40, leaves=31, learning_rate=0.12,
    bins=127, bin_rows=200_000, least_rows=20, l2=2.0, most_programs=1 << 30,
)  # fmt: skip
"""Of a model that learns from a corpus once, and not while somebody waits for it."""

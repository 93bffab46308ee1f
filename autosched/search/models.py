"""Cost models by name or from a file; others are objects, an argument of ``tune``."""

from __future__ import annotations

from dataclasses import replace
from inspect import getattr_static
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, assert_never, get_args

from autosched.system.errors import OptionError
from costmodel.gbdt_options import GbdtOptions
from sketch.errors import quoted

if TYPE_CHECKING:
    from costmodel.model import CostModel
    from sketch.target.target import Target

ModelName = Literal["gbdt", "forest", "ridge", "draft", "random"]

MODELS: Final[tuple[ModelName, ...]] = get_args(ModelName)

_PARTS: Final = ("ready", "predict", "update")  # what a search uses of a model

AnyModel: TypeAlias = "CostModel | ModelName"
"""A cost model as users give it: an object, or a name of ``MODELS``."""


def check_model(given: object) -> None:
    """Raise OptionError unless it is a cost model, the name of one, or None.

    Raises:
        OptionError: it is something else, such as the class of a model.
    """
    if isinstance(given, str):
        known = given in MODELS
    else:  # its attributes are not asked: one that fails is told of when it is used
        known = all(getattr_static(given, name, None) is not None for name in _PARTS)
    if given is not None and (isinstance(given, type) or not known):
        raise OptionError(
            f"cost_model is {quoted(given)}",
            hint=f"give one of {', '.join(MODELS)}, or an object such as SklearnModel(regressor)",
        )


def model_of(
    given: AnyModel | None, target: Target, seed: int = 0, gbdt: GbdtOptions | None = None
) -> CostModel:
    """The model itself, a fresh one of that name, or ``usual_model``.

    Args:
        given: see ``check_model``.
        target: for which machine, where nothing is said.
        seed: of a model that is made.
        gbdt: options of its trees.

    Raises:
        CostModelError: the file of the release is damaged, or of another feature table.
    """
    if given is None:
        return usual_model(target, seed, gbdt)
    return make_model(given, seed, gbdt) if isinstance(given, str) else given


def make_model(name: ModelName, seed: int = 0, gbdt: GbdtOptions | None = None) -> CostModel:
    """A fresh model: gradient-boosted trees, two of scikit-learn's, and two that never learn.

    ``gbdt``: options of the trees, but for their seed.  The libraries are imported only here: they
    start threads that a forking process must not have.
    """
    match name:
        case "gbdt":
            from costmodel.gbdt import GradientBoostedModel

            return GradientBoostedModel(replace(gbdt or GbdtOptions(), seed=seed))
        case "forest":
            from costmodel.sklearn_model import random_forest

            return random_forest(seed)
        case "ridge":
            from costmodel.sklearn_model import ridge_regression

            return ridge_regression()
        case "draft":
            from costmodel.model import DraftModel

            return DraftModel()
        case "random":
            import numpy as np

            from costmodel.model import RandomModel

            return RandomModel(np.random.default_rng(seed))
        case _ as unknown:
            assert_never(unknown)


def usual_model(target: Target, seed: int = 0, gbdt: GbdtOptions | None = None) -> CostModel:
    """Where nothing is said: the model of the release, adapted in the run; where it has none for
    such machines, trees that begin with nothing.

    Raises:
        CostModelError: the file of the release is damaged, or of another feature table.
    """
    from costmodel.shipped import shipped_for

    path = shipped_for(target)
    if path is None or not (gbdt or GbdtOptions()).on_draft:
        return make_model("gbdt", seed, gbdt)
    return trained_model(path, seed, gbdt)


def trained_model(path: Path, seed: int = 0, gbdt: GbdtOptions | None = None) -> CostModel:
    """A model of ``autosched costmodel train``, with trees that learn the rest during the run.

    Args:
        path: of its file.
        seed: of these trees.
        gbdt: other options of them.

    Raises:
        CostModelError: it is no such model, is damaged, of another release, or untrained.
    """
    from costmodel.adapted import AdaptedModel
    from costmodel.gbdt import GradientBoostedModel

    return AdaptedModel(GradientBoostedModel.load(path), replace(gbdt or GbdtOptions(), seed=seed))

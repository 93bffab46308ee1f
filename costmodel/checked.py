"""Cost models asked with suspicion: what they answer is an array of positive times, or a fault.

Models come from users.  One that has diverged, or that raises, must neither steer a search nor
score as if it had ranked something.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from costmodel.dataset import Dataset
from costmodel.errors import CostModelError, ModelFaultError
from costmodel.extra_feature import listed
from costmodel.features import Features
from costmodel.model import CostModel

_MOST_TEXT: Final = 300  # of a foreign exception's message, in characters


def checked_ready(model: CostModel) -> bool:
    """``model.ready``.

    Raises:
        ModelFaultError: it raised.
    """
    try:
        return bool(model.ready)
    except Exception as error:  # the boundary: a model may be anybody's code
        raise _raised(model, "ready", error) from error


def checked_head_start(model: CostModel) -> float:
    """How many measured candidates a model is worth before any is; 0 where it does not say.

    Raises:
        ModelFaultError: its ``head_start`` raised, or is no finite number from 0 on.
    """
    found = _number(model, "head_start")
    if not 0.0 <= found < math.inf:
        raise _fault(model, f"head_start is {found}", "give a number of candidates, 0 or more")
    return found


def checked_process_share(model: CostModel) -> float:
    """What share of the ranking a model leaves to the process of a task, from 0 to 1; 0 where it
    does not say.

    Raises:
        ModelFaultError: its ``process_share`` raised, or is no number from 0 to 1.
    """
    found = _number(model, "process_share")
    if not 0.0 <= found <= 1.0:
        raise _fault(model, f"process_share is {found}", "give a number from 0 to 1")
    return found


def _number(model: CostModel, name: str) -> float:
    """An attribute that a model may have; 0 where it has none."""
    try:
        return float(getattr(model, name, 0.0))
    except Exception as error:  # the boundary
        raise _raised(model, name, error) from error


def check_extra(model: CostModel, names: tuple[str, ...]) -> None:
    """Raise CostModelError where a model was trained with other extra features than these."""
    trained = getattr(model, "extra_features", None)
    if trained is not None and checked_ready(model) and tuple(trained) != names:
        raise CostModelError(
            f"it was trained with {listed(trained)}, now there are {listed(names)}",
            f"cost model {model_name(model)}",
            "give the same extra_features, or a new model",
        )


def checked_prediction(model: CostModel, features: Features) -> NDArray[np.float64]:
    """[P]: what the model predicts, finite and positive.

    Raises:
        ModelFaultError: it raised, or gave NaN, infinities, times that are not positive, or
            something of another shape or kind.
    """
    with np.errstate(all="ignore"):
        try:
            answer = model.predict(features)
        except Exception as error:  # the boundary
            raise _raised(model, "predict", error) from error
        times = _as_times(model, answer)
    if times.shape != (features.count,):
        raise _fault(
            model, f"predict gave an array of shape {times.shape} for {features.count} programs",
            f"return one time for each program, shape ({features.count},)",
        )  # fmt: skip
    for what, found in (
        ("NaN", np.isnan(times)), ("infinity", np.isinf(times)), ("a time <= 0", times <= 0)
    ):  # fmt: skip
        if found.any():
            raise _fault(
                model, f"predict gave {what} for {int(found.sum())} of {len(times)} programs",
                "return finite, positive times",
            )  # fmt: skip
    return times


def checked_preparation(model: CostModel) -> None:
    """``model.prepare()``, which it may have: what it does before there is anything to learn.

    Raises:
        ModelFaultError: it raised.
    """
    try:
        getattr(model, "prepare", _nothing)()
    except Exception as error:  # the boundary
        raise _raised(model, "prepare", error) from error


def _nothing() -> None:
    """What a model without ``prepare`` does."""


def checked_update(model: CostModel, dataset: Dataset) -> None:
    """``model.update(dataset)``.

    Raises:
        ModelFaultError: it raised.
    """
    try:
        model.update(dataset)
    except Exception as error:  # the boundary
        raise _raised(model, "update", error) from error


def model_name(model: CostModel) -> str:
    """The model's class, for people."""
    return type(model).__name__


def _as_times(model: CostModel, answer: Any) -> NDArray[np.float64]:
    try:
        given = np.asarray(answer)
        if given.dtype.kind not in "fiu":
            raise TypeError(f"an array of {given.dtype}")
        return given.astype(np.float64)
    except Exception as error:  # whatever an object does when it is made an array
        raise _fault(
            model, f"predict gave no array of numbers: {_text(error)}",
            "return a NumPy array of float64",
        ) from error  # fmt: skip


def _raised(model: CostModel, method: str, error: Exception) -> ModelFaultError:
    if isinstance(error, CostModelError):
        return _fault(model, f"{method} failed: {error.what}", error.hint, error.where)
    return _fault(model, f"{method} raised {type(error).__name__}: {_text(error)}")


def _fault(model: CostModel, what: str, hint: str = "", where: str = "") -> ModelFaultError:
    place = f"cost model {model_name(model)}"
    return ModelFaultError(what, f"{place}: {' '.join(where.split())}" if where else place, hint)


def _text(error: Exception) -> str:
    """What a foreign exception says; nothing where it cannot."""
    try:
        return " ".join(str(error).split())[:_MOST_TEXT]
    except Exception as broken:  # the boundary: str() calls the exception's own code
        return f"its text raised {type(broken).__name__}"

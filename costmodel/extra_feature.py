"""Features of a user's own: names, functions, and the version of a feature table with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from costmodel.errors import CostModelError
from costmodel.feature_table import FEATURE_INDEX, FEATURE_VERSION

if TYPE_CHECKING:
    from costmodel.extract.statement import Statement


@dataclass(frozen=True, slots=True)
class ExtraFeature:
    """A column that every cost model of a run gets beside those of ``costmodel.feature_table``.

        def reduce_trips(statement):
            loops = [loop for loop in statement.main.loops if loop.reduce]
            return math.prod(loop.extent for loop in loops)

        asd.ExtraFeature("reduce_trips", reduce_trips)

    Attributes:
        name: an identifier, and none of ``FEATURE_NAMES``.
        function: from a statement of P programs, whose loops have float64 [P] or a number as
            extents, to one finite number a program: an array [P], or a number that stands for all.
            Loops that have one trip in all P programs are not there: no result may depend on how
            many loops there are.

    Raises:
        CostModelError: another name, or what is no function.
    """

    name: str
    function: Callable[[Statement], Any]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise CostModelError(
                f"{self.name!r} is no name of a feature", hint="give an identifier"
            )
        if self.name in FEATURE_INDEX:
            raise CostModelError(
                f"there is a feature {self.name!r} already",
                hint="costmodel.feature_table.describe_features() lists them",
            )
        if not callable(self.function):
            raise CostModelError(
                f"{type(self.function).__name__} is no function", f"extra feature {self.name}"
            )


def extra_names(features: Sequence[ExtraFeature]) -> tuple[str, ...]:
    """Their names, in order.

    Raises:
        CostModelError: something else than an ``ExtraFeature``, or one name twice.
    """
    for feature in features:
        if not isinstance(feature, ExtraFeature):
            raise CostModelError(
                f"{type(feature).__name__} is no extra feature",
                hint="give autosched.ExtraFeature(name, function)",
            )
    names = tuple(feature.name for feature in features)
    double = [name for n, name in enumerate(names) if name in names[:n]]
    if double:
        raise CostModelError(f"two extra features are called {double[0]!r}")
    return names


def feature_version(extra: Sequence[str] = ()) -> str:
    """Of the feature table with extra features of these names, in this order."""
    return "+".join((FEATURE_VERSION, *extra))


def check_version(found: object, extra: Sequence[str], path: str, hint: str) -> None:
    """Raise CostModelError unless a file was made with these features.

    Args:
        found: the version that the file states.
        extra: names of the extra features that are used now.
        path: of the file.
        hint: what to do where the feature table is another one.
    """
    if found == feature_version(extra):
        return
    version, *others = str(found).split("+")
    if version != FEATURE_VERSION:
        raise CostModelError(
            f"features of version {version}, this is version {FEATURE_VERSION}", path, hint
        )
    raise CostModelError(
        f"made with {listed(others)}, now there are {listed(extra)}", path,
        f"give the same extra_features, or {hint}",
    )  # fmt: skip


def listed(names: Sequence[str]) -> str:
    """Names of extra features, for people."""
    return f"the extra features {', '.join(names)}" if names else "no extra features"

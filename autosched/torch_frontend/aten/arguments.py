"""Arguments of a call of an ATen operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def arguments_by_name(
    schema: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """All arguments of a call, defaults included."""
    defaults = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    names = [argument.name for argument in schema.arguments]
    return defaults | dict(zip(names, args, strict=False)) | dict(kwargs)

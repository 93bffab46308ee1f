"""--policy: a search policy by name, or the user's own in a file or a module."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from typing import Any, cast

from autosched.search.options import POLICIES, PolicyFactory, PolicyName
from autosched.system.errors import OptionError
from autosched.system.user_modules import imported


def policy_name(text: str) -> str:
    """An argparse type: one of ``POLICIES``, or FILE.py:NAME; imports nothing."""
    if text not in POLICIES and ":" not in text:
        known = ", ".join(POLICIES)
        raise argparse.ArgumentTypeError(f"{text!r} is none of {known}, nor FILE.py:NAME")
    return text


def named_policy(text: str) -> PolicyName | PolicyFactory:
    """The policy that a text names.

    Raises:
        OptionError: the file or the module cannot be imported, or has no such policy, or one that
            is made of other arguments.
    """
    if text in POLICIES:
        return cast("PolicyName", text)
    source, _, name = text.rpartition(":")
    module = imported(source, OptionError)
    found: Any = vars(module).get(name)
    if not callable(found):
        raise OptionError(
            f"there is no policy {name!r}", source, "name a class with ask and tell, or its maker"
        )
    if not _takes(found, 4):
        raise OptionError(
            f"the policy {name!r} takes other arguments",
            source,
            "it is called with a space, a scorer, a random generator and what is measured",
        )
    return cast("PolicyFactory", found)


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many arguments, as far as it says what it takes."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True

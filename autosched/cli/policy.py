"""--policy: a search policy by name, or the user's own in a file or a module."""

from __future__ import annotations

import argparse
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
        OptionError: the file or the module cannot be imported, or has no such policy.
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
    return cast("PolicyFactory", found)

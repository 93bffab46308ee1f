"""Modules of the user: what cannot be one is one error."""

from __future__ import annotations

import pytest

from autosched.system.errors import OptionError
from autosched.system.user_modules import imported


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(OptionError, match="there is no such file"):
        imported("x" * 300 + ".py", OptionError)

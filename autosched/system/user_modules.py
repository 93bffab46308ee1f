"""Files and modules of the user: what extends a command is in one of them."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Final

from sketch.errors import AutoschedError

SUFFIX: Final = ".py"


def imported(source: str, failure: type[AutoschedError]) -> ModuleType:
    """The module that ``FILE.py`` or ``package.module`` names; runs it.

    Raises:
        AutoschedError: of the type ``failure``: there is none, or it cannot be imported.
    """
    if source.endswith(SUFFIX) and not os.path.isfile(source):
        raise failure("there is no such file", source)
    try:
        return _execute(Path(source)) if source.endswith(SUFFIX) else import_module(source)
    except Exception as error:
        lines = [frame.lineno for frame in extract_tb(error.__traceback__)
                 if frame.filename == str(Path(source).resolve())]  # fmt: skip
        line = f":{lines[-1]}" if lines else ""
        raise failure(
            f"it cannot be imported: {type(error).__name__}: {error}", f"{source}{line}"
        ) from error


def _execute(path: Path) -> ModuleType:
    """Run a file as a module; like a script, it may import what lies beside it."""
    path = path.resolve()
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None  # a name that ends in .py has a loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

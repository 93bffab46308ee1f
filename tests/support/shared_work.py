"""What depends on its arguments alone is computed once for the tests of a process.

Hundreds of tests tune, compile or explain equal small tasks.  Spaces of equal tasks, sketches of
equal programs and machine code of equal text are kept for the next one that asks.  Tests of how
spaces are made call ``build_space`` itself, which stays as it is.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest

from autosched.search import space, unmeasured
from codegen import build, counting, driver, entry, hand_over
from codegen.cuda import nvrtc
from sketch.rules import generate

# Spaces hold what is recorded of their sketches: a megabyte of each and more.
_SPACES = 48
_SKETCHES = 256
_OBJECTS = 1024


def remembered(function: Callable[..., Any], most: int) -> Callable[..., Any]:
    """``function``, whose last results are kept by the pickled arguments.

    Called as it is where an argument has no pickle, as rules that a test defines.
    """
    known: OrderedDict[bytes, Any] = OrderedDict()

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            key = pickle.dumps((args, sorted(kwargs.items())))
        except (pickle.PicklingError, AttributeError, TypeError):
            return function(*args, **kwargs)
        if key in known:
            known.move_to_end(key)
            return known[key]
        found = known[key] = function(*args, **kwargs)
        if len(known) > most:
            known.popitem(last=False)
        return found

    return call


@contextmanager
def shared_work() -> Iterator[None]:
    """Results are shared while this lasts."""
    spaces = remembered(space.build_space, _SPACES)
    objects = remembered(build.emit_object, _OBJECTS)
    with pytest.MonkeyPatch.context() as patch:
        for module in (space, unmeasured):
            patch.setattr(module, "build_space", spaces)
        for module in (build, counting, driver, entry, hand_over):
            patch.setattr(module, "emit_object", objects)
        patch.setattr(generate, "explore", remembered(generate.explore, _SKETCHES))
        patch.setattr(nvrtc, "_compile", remembered(nvrtc._compile, _OBJECTS))
        yield

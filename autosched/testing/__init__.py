"""Suites of tests that every cost model, runner, search policy and sketch rule must pass.

A suite is a class for pytest: derive from it in a test module, under a name that begins with
``Test``, and say how to make what is tested::

    from autosched.testing import SearchPolicyConformance

    class TestMyPolicy(SearchPolicyConformance):
        def make(self, space, seed):
            return MyPolicy(space, np.random.default_rng(seed))

Each test is a method of its own, so a failure names the promise that is broken.
``pytest.register_assert_rewrite("autosched.testing")`` in a ``conftest.py`` makes its message show
the values.  The suites themselves need no pytest.

``check_variant`` proves that another algorithm for a program computes the same.
"""

from __future__ import annotations

from autosched.testing.cost_model import CostModelConformance
from autosched.testing.policy import SearchPolicyConformance
from autosched.testing.rule import SketchRuleConformance
from autosched.testing.runner import RunnerConformance
from autosched.testing.variant import check_variant

__all__ = [
    "CostModelConformance",
    "RunnerConformance",
    "SearchPolicyConformance",
    "SketchRuleConformance",
    "check_variant",
]

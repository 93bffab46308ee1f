"""The laboratory: policies, models and schedulers compared on equal measurements.

tasks = [asd.workloads.get("GMM").task(1, 128, 128, 128)]
found = asd.research.compare(["evolutionary", "ansor", "random"], tasks=tasks, seeds=[0, 1, 2])
print(found.table())
asd.plots.trial_curves(found)
"""

from autosched.research.laboratory import compare as compare
from autosched.research.policies import PARTS as PARTS
from autosched.research.policies import POLICY_NAMES as POLICY_NAMES
from autosched.research.result import StudyResult as StudyResult
from autosched.research.result import StudyRun as StudyRun
from autosched.research.result import StudySetting as StudySetting
from autosched.research.result import TrialCurve as TrialCurve

__all__ = [
    "PARTS",
    "POLICY_NAMES",
    "StudyResult",
    "StudyRun",
    "StudySetting",
    "TrialCurve",
    "compare",
]  # fmt: skip

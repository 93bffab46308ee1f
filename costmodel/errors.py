"""Errors of the cost models."""

from sketch.errors import AutoschedError


class CostModelError(AutoschedError):
    """Features, data and models do not fit each other, or a file is not what it should be."""


class ModelFaultError(CostModelError):
    """A cost model raised, or predicted something that is no time; the model's class is named."""

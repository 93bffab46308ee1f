"""Errors of the cost models."""

from sketch.errors import AutoschedError


class CostModelError(AutoschedError):
    """Features, data and models do not fit each other, or a file is not what it should be."""

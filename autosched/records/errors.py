"""Errors of the records layer."""

from sketch.errors import AutoschedError


class RecordError(AutoschedError):
    """A log cannot be written, or does not say what it must."""

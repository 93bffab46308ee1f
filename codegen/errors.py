"""Errors of code generation."""

from sketch.errors import AutoschedError


class CodegenError(AutoschedError):
    """A loop nest cannot be turned into code."""

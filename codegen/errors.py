"""Errors of code generation."""

from sketch.errors import AutoschedError


class CodegenError(AutoschedError):
    """A loop nest cannot be turned into code."""


class ObjectFileError(AutoschedError):
    """Machine code is not in the form of object files that this release reads."""


class InfeasibleError(CodegenError):
    """Code was made, but asks more of the machine than it has or than pays: registers, memory."""

"""Errors of the runtime layer."""

from sketch.errors import AutoschedError


class InputError(AutoschedError):
    """``run`` was given a wrong name, shape, dtype or kind of array."""


class ModuleFileError(AutoschedError):
    """A file is no module, is damaged, or was written by a newer release."""


class AssemblyError(AutoschedError):
    """Kernels and values do not fit together, or a weight is NaN."""


class ExportError(AutoschedError):
    """A module cannot be written as a native library, or be pickled."""


class UntrustedModuleError(ModuleFileError):
    """A module was written elsewhere or by somebody else, and nobody said that it is trusted."""


class CalibrationError(AutoschedError):
    """The rates of this machine could not be measured, or not be kept."""

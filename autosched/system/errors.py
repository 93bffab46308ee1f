"""Errors of tasks and tuning."""

from sketch.errors import AutoschedError


class OptionError(AutoschedError):
    """An option has a value that makes no sense."""


class MissingPackageError(AutoschedError):
    """A function needs a package that is not installed."""


class TaskError(AutoschedError):
    """A task is malformed, or a log has nothing for it."""


class TuningError(AutoschedError):
    """Tuning cannot go on: nothing runs, or there is nothing to tune."""


class MachineError(AutoschedError):
    """This machine lacks something that nothing can be tuned without."""


class WorkloadError(AutoschedError):
    """A workload is not known, or its arguments do not fit."""

"""Errors of the fleet."""

from sketch.errors import AutoschedError


class FleetError(AutoschedError):
    """The machines cannot be reached or used; a candidate that fails is a ``Failure`` instead."""


class MachineLostError(FleetError):
    """A machine went away while it measured: what it worked on goes to another."""

"""Errors of the graph layer and of the model importers."""

from sketch.errors import AutoschedError


class GraphError(AutoschedError):
    """A graph is malformed: unknown value, wrong shape, name defined twice, bad attribute."""


class ModelImportError(AutoschedError):
    """A model file cannot be read, or holds something that autosched does not support."""


class UnsupportedModelError(ModelImportError):
    """A model is sound, but holds something that neither kernels nor the host can compute."""


class OpenShapesError(ModelImportError):
    """A model leaves shapes of inputs open, and nobody said which are wanted."""

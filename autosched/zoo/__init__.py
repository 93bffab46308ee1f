"""Networks built directly as graphs, with seeded weights: ``zoo.build("resnet-18")``."""

from autosched.zoo.build import NAMES, build, resnet18

__all__ = ["NAMES", "build", "resnet18"]

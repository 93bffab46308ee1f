"""Networks built directly as graphs, with seeded weights: ``zoo.build("resnet-18")``."""

from autosched.zoo.build import NAMES, build
from autosched.zoo.named import (
    dcgan,
    dla34,
    inception_v3,
    mlp,
    mobilenet_v1,
    mobilenet_v2,
    resnet3d18,
    resnet18,
    resnet34,
    resnet50,
    squeezenet,
    vgg16,
)

__all__ = [
    "NAMES",
    "build",
    "dcgan",
    "dla34",
    "inception_v3",
    "mlp",
    "mobilenet_v1",
    "mobilenet_v2",
    "resnet3d18",
    "resnet18",
    "resnet34",
    "resnet50",
    "squeezenet",
    "vgg16",
]

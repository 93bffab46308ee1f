"""Networks built directly as graphs, with seeded weights: ``zoo.build("resnet-18")``."""

from autosched.zoo.build import NAMES, build
from autosched.zoo.named import (
    bert_base,
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
    "bert_base",
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

"""ResNet-18's convolution tasks, as tuning the network makes them."""

from __future__ import annotations

from autosched import zoo
from autosched.compilation.network import extract_checked, network_tasks
from autosched.task import Task
from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import Placeholder


def convolution_tasks(threads: int) -> list[Task]:
    """Distinct tasks with a convolution's weight, each with its number of uses."""
    target = host_target(threads)
    tasks = network_tasks(extract_checked(zoo.build("resnet-18"), target), target)
    return [Task.of(task) for task in tasks if _has_filter(task.dag)]


def _has_filter(dag: ComputeDAG) -> bool:
    """Whether a constant has four dimensions: kernel height and width, channels, filters."""
    return any(
        isinstance(tensor.op, Placeholder) and tensor.op.constant and tensor.ndim == 4
        for tensor in dag.inputs
    )

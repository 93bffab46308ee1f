"""Graphs of ATen operators as networks, without ONNX in between."""

from autosched.torch_frontend.aten.call import NotTakenError
from autosched.torch_frontend.aten.conversion import network_of_graph
from autosched.torch_frontend.aten.program import network_of_program

__all__ = ["NotTakenError", "network_of_graph", "network_of_program"]

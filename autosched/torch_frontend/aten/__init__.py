"""Graphs of ATen operators as networks, without ONNX in between."""

from autosched.torch_frontend.aten.call import NotTakenError
from autosched.torch_frontend.aten.conversion import network_of_graph
from autosched.torch_frontend.aten.program import ProgramCall, call_of_program

__all__ = [
    "NotTakenError",
    "ProgramCall",
    "call_of_program",
    "network_of_graph",
]

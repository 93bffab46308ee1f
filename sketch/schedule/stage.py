"""Stages and tensors of a program as steps call them."""

StageId = str
TensorId = str

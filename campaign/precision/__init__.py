"""Accuracy of long reductions, memory over many runs, and PyTorch modules."""

"""CUDA C++ from loop nests, compiled with NVRTC; no device is needed before ``launch``."""

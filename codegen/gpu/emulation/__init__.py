"""CUDA C++ on the CPU: the text of kernels is compiled with headers that stand in for CUDA's."""

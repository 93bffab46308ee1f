"""The parts of ``benchmarks.gpu``: each measures one thing in a process of its own."""

"""The network as a graph: IR, operators, passes, fusion into subgraphs, extraction of tasks."""

"""Graph -> Graph passes, one a file; ``autosched.graph.optimize`` puts them in order."""

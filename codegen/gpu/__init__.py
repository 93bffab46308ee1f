"""GPUs as devices: memory, streams, graphs and events; a real one, and one that is emulated."""

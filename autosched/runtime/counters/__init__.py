"""Hardware counters of the operators of a module, through the kernel's perf_event_open."""

"""What is tuned, as data: the specification of a task, and a candidate for it."""

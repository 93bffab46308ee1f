"""Programs on a GPU: what is resident, what a caller has to himself, captured graphs."""

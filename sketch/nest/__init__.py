"""Loop nests: their nodes, an interpreter and a printer."""

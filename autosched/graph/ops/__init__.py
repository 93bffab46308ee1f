"""Graph operators, one family a file: attributes, shape inference, lowering to expressions."""

"""The language of tensor programs: element types, expressions, functions, tensors."""

"""Importers of operators that onnxruntime's optimiser, its quantiser and genai write.

Each is expressed in the graph operators that the standard forms consist of, so that fusion and
tuning work on them alike.
"""

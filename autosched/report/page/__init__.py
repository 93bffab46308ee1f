"""Reports of logs: what was measured, as one HTML file that needs nothing else.

``subject`` is what a report is about, ``writing`` puts all together; most other modules make one or
two sections each.
"""

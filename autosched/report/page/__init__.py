"""Reports: what a log says, as one HTML file that needs nothing else (the extra ``report``).

``blocks`` is what a page is made of, ``subject`` what it is about, ``document`` turns the blocks
into HTML, and ``writing`` puts all together; the other modules make one or two sections each.
"""

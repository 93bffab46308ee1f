"""HTML pages as data: sections of text, tables and charts, and the one file that they become."""

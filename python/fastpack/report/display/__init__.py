"""Shows reports and rows: pages for a terminal, cells of a notebook, and HTML files.

Reports hold numbers; everything that shows them is here.
"""

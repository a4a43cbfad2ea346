"""Reports of an evaluation: a table for the terminal and one self-contained HTML page.

Both are made from the *document* of the evaluation, a plain dict, and are independent of how it was measured.
"""

from fastcep.report.evaluation.page import html, save_html
from fastcep.report.evaluation.table import evaluation_table

__all__ = ["evaluation_table", "html", "save_html"]

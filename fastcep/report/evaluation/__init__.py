"""What an evaluation found, for people: a table for the terminal and one self-contained HTML page.

Both are made from the evaluation's *document*, a plain dict; nothing here knows how it was measured.
"""

from fastcep.report.evaluation.page import html, save_html
from fastcep.report.evaluation.table import evaluation_table

__all__ = ["evaluation_table", "html", "save_html"]

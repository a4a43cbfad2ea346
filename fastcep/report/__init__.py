"""What people look at: tables and pictures. Drawing libraries are imported only when something is drawn."""

from fastcep.report.plots import draw_line, save_line, thin
from fastcep.report.tables import format_value, matches_table, paths_table

__all__ = ["draw_line", "format_value", "matches_table", "paths_table", "save_line", "thin"]

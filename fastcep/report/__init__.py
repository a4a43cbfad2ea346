"""Tables, plots and Prometheus metrics. Optional libraries are imported only when they are needed."""

from fastcep.report.plots import draw_line, save_line, thin
from fastcep.report.prometheus import Server, serve_metrics
from fastcep.report.tables import format_value, matches_table, paths_table

__all__ = [
    "Server", "draw_line", "format_value", "matches_table", "paths_table", "save_line", "serve_metrics", "thin",
]  # fmt: skip

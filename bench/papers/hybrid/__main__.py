"""Run figures of the hybrid paper: ``python -m bench.papers.hybrid [FIGURE …]``."""

from __future__ import annotations

import sys

from bench.papers.__main__ import main

if __name__ == "__main__":
    main(["hybrid", *sys.argv[1:]])

"""Run figures of the eSPICE paper: ``python -m bench.papers.espice [FIGURE …]``."""

from __future__ import annotations

import sys

from bench.papers.__main__ import main

if __name__ == "__main__":
    main(["espice", *sys.argv[1:]])

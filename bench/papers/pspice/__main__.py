"""Run figures of the pSPICE paper: ``python -m bench.papers.pspice [FIGURE …]``."""

from __future__ import annotations

import sys

from bench.papers.__main__ import main

if __name__ == "__main__":
    main(["pspice", *sys.argv[1:]])

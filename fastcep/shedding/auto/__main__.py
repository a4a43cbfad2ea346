"""The process that fits models for `Auto`: ``python -m fastcep.shedding.auto FOLDER``."""

import sys
from pathlib import Path

from fastcep.shedding.auto.background import run_job

if __name__ == "__main__":
    run_job(Path(sys.argv[1]))

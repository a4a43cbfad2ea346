"""The process that fits models while an engine runs: ``python -m fastcep.shedding.refit FOLDER``."""

import sys
from pathlib import Path

from fastcep.shedding.refit.process import run_job

if __name__ == "__main__":
    run_job(Path(sys.argv[1]))

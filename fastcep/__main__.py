"""``python -m fastcep`` is the command ``fastcep``."""

from fastcep.cli import main

main()

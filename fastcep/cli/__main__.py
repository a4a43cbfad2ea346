"""``python -m fastcep.cli`` is the command ``fastcep``."""

from fastcep.cli.commands import main

if __name__ == "__main__":
    main()

#!/usr/bin/env bash
# Print the first interpreter that can build fastcep: Python 3.11 or newer with venv, pip and the C headers.
# If $PYTHON is set, it is the only candidate. On failure, print what is missing and how to install it.
set -euo pipefail

probe='
import os, sys, sysconfig
missing = []
if sys.version_info < (3, 11):
    sys.exit("is Python %d.%d; 3.11 or newer is needed" % sys.version_info[:2])
for module in ("venv", "ensurepip"):
    try:
        __import__(module)
    except ImportError:
        missing.append("the module " + module + " (Debian, Ubuntu: apt-get install python3-venv)")
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    missing.append("its C headers (Debian, Ubuntu: apt-get install python3-dev)")
if missing:
    sys.exit("lacks " + " and ".join(missing))
print(sys.executable)
'
candidates=(python3 python3.13 python3.12 python3.11 /usr/bin/python3)
[ -z "${PYTHON:-}" ] || candidates=("$PYTHON")

reasons=""
for candidate in "${candidates[@]}"; do
    command -v "$candidate" >/dev/null 2>&1 || continue
    if answer=$("$candidate" -c "$probe" 2>&1); then
        printf '%s\n' "$answer"
        exit 0
    fi
    reasons+="  $candidate ${answer%%$'\n'*}"$'\n'
done
{
    echo "No Python was found that can build fastcep (looked for: ${candidates[*]})."
    printf '%s' "$reasons"
    echo "Debian, Ubuntu: apt-get install python3 python3-venv python3-dev; elsewhere name one: make PYTHON=/path/to/python3.12"
} >&2
exit 1

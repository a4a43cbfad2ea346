#!/usr/bin/env bash
# usage: ci/setup.sh VENV -- create a virtual environment and install fastcep into it, editable, with the development dependencies.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1

if ! command -v "${CC:-cc}" >/dev/null 2>&1 && ! command -v gcc >/dev/null 2>&1; then
    echo "No C compiler was found; fastcep's engine is compiled. Debian, Ubuntu: apt-get install gcc libc6-dev; macOS: xcode-select --install" >&2
    exit 1
fi
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    python=$(ci/find_python.sh)
    echo "fastcep: creating $venv with $python" >&2
    "$python" -m venv --clear "$venv"
fi
echo "fastcep: installing into $venv (a minute or two the first time)" >&2
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --editable '.[dev]'

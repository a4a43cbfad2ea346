#!/usr/bin/env bash
# usage: ci/setup.sh VENV [EXTRA] -- create a virtual environment and install fastcep into it, editable, with an extra of
# pyproject.toml: "dev", everything that development needs, unless another is given.
# The extensions compile while pip downloads and unpacks the other packages.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
extra=${2:-dev}

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
# Python compiles to bytecode what it imports; compiling everything takes longer than installing it.
pip=("$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-compile)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# numba decides which numpy is installed, and the extensions compile against that one.
mapfile -t needs < <("$venv/bin/python" ci/requirements.py build "$extra")
"${pip[@]}" "${needs[@]}"
"$venv/bin/python" setup.py --quiet build_ext --inplace >"$log" 2>&1 &
compiler=$!
mapfile -t needs < <("$venv/bin/python" ci/requirements.py run "$extra")
"${pip[@]}" "${needs[@]}"
if ! wait "$compiler"; then
    tail -n 60 "$log" >&2
    exit 1
fi
FASTCEP_COMPILED=1 "${pip[@]}" --no-deps --no-build-isolation --editable .

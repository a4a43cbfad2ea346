#!/usr/bin/env bash
# usage: ci/wheel_smoke.sh PYTHON -- build a source distribution and a wheel from it, and test the wheel in a clean environment.
# Extensions that the source tree has already compiled are reused if their sources are the same.
set -euo pipefail
python=$(realpath --no-symlinks "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap '/bin/rm -rf "$work"' EXIT

mkdir "$work/tree" "$work/source"
"$here/copy_tree.sh" "$work/tree"
echo "wheel: building" >&2
build() {
    if ! "$python" -m build --no-isolation "$@" >"$work/build.log" 2>&1; then
        tail -n 60 "$work/build.log" >&2
        exit 1
    fi
}
build --sdist --outdir "$work/dist" "$work/tree"
tar --extract --strip-components=1 --directory "$work/source" --file "$work"/dist/*.tar.gz
"$python" "$here/reuse_build.py" "$here/.." "$work/source"
build --wheel --outdir "$work/dist" "$work/source"
most=8000000
if [ "$(stat --format=%s "$work"/dist/*.whl)" -gt $most ]; then
    echo "wheel: $(basename "$work"/dist/*.whl) is larger than $most bytes" >&2
    exit 1
fi
echo "wheel: installing $(basename "$work"/dist/*.whl) into a clean environment" >&2
"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -qq --disable-pip-version-check "$work"/dist/*.whl

mkdir "$work/empty"
cd "$work/empty"
unset PYTHONPATH
export FASTCEP_CACHE_DIR=$work/cache
PATH=$work/venv/bin # without a compiler
python -W error "$here/smoke.py"
fastcep --help >/dev/null
fastcep datasets list >/dev/null
echo "wheel: ok" >&2

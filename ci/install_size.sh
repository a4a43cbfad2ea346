#!/usr/bin/env bash
# usage: ci/install_size.sh PYTHON [COMMIT|WHEEL] -- install a wheel, or that of a commit (HEAD), into a clean environment;
# print the size of the wheel, of the installed packages, and the time of `import fastcep`, best of 20 processes.
set -euo pipefail
python=$(realpath --no-symlinks "$1")
commit=${2:-HEAD}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ "${commit%.whl}" != "$commit" ]; then
    wheel=$(realpath "$commit")
else
    mkdir "$work/source"
    git -C "$here/.." archive "$commit" | tar --extract --directory "$work/source"
    if ! "$python" -m build --wheel --no-isolation --outdir "$work/dist" "$work/source" >"$work/build.log" 2>&1; then
        tail -n 40 "$work/build.log" >&2
        exit 1
    fi
    wheel=$(echo "$work"/dist/*.whl)
fi
"$python" -m venv "$work/venv"
bin=$work/venv/bin
packages=$("$bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
size() { du --summarize --bytes --apparent-size "$@" | awk '{total += $1} END {printf "%.1f MB", total / 1e6}'; }
before=$(find "$packages" -maxdepth 1 -mindepth 1)
"$bin/python" -m pip install -qq --disable-pip-version-check "$wheel"
cd "$work"
unset PYTHONPATH
"$bin/python" -c "import fastcep" # compiles to bytecode what it imports
mapfile -t added < <(comm -13 <(sort <<<"$before") <(find "$packages" -maxdepth 1 -mindepth 1 | sort))
echo "wheel:      $(size "$wheel") $(basename "$wheel")"
echo "fastcep:    $(size "$packages/fastcep") installed"
echo "all:        $(size "${added[@]}") in $("$bin/python" -m pip list --format=freeze --disable-pip-version-check | grep -cv '^pip==\|^setuptools==') packages"
"$bin/python" - <<'END'
import os, subprocess, sys

def best(code):
    times = []
    for _ in range(20):
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True)
        after = os.times()
        times.append(after.children_user - before.children_user + after.children_system - before.children_system)
    return min(times)

empty = best("")
print(f"import:     {best('import fastcep') - empty:.2f} s of CPU time after {empty:.2f} s for Python itself")
code = "import sys, fastcep; print(len(sys.modules))"
print("modules:   ", subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip())
END

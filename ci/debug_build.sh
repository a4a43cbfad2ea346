#!/usr/bin/env bash
# usage: ci/debug_build.sh PYTHON -- test the engine on a build with bounds checks and C asserts, in a copy of the sources.
# FASTCEP_SANITIZE=address,undefined adds the compiler's sanitizers.
set -euo pipefail
python=$(realpath --no-symlinks "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$here/copy_tree.sh" "$work"
cd "$work"
echo "debug build: compiling" >&2
if ! FASTCEP_DEBUG=1 "$python" setup.py --quiet build_ext --inplace >"$work/build.log" 2>&1; then
    tail -n 60 "$work/build.log" >&2
    exit 1
fi

export PYTHONPATH=$work
tests=(
    tests/_core tests/engine/test_selection.py tests/engine/test_quiet_stream.py tests/engine/test_memory*.py
    tests/engine/state/test_forged*.py tests/shedding/hybrid/test_forged_models.py tests/cli/test_forged_checkpoints.py
    tests/shedding/test_shedding_properties.py tests/shedding/test_lineage.py tests/overload/test_shed_operators.py
    tests/overload/test_event_classes.py tests/overload/test_work_limit.py tests/overload/test_trees.py
    tests/overload/test_latency.py tests/evaluation/test_clairvoyant.py
    tests/test_matrix.py::test_bytecode
)
if [[ "${FASTCEP_SANITIZE:-}" == *address* ]]; then
    # Python is not instrumented: preload the sanitizer's runtime, and ignore Python's own leaks.
    export LD_PRELOAD ASAN_OPTIONS=detect_leaks=0
    LD_PRELOAD=$("${CC:-gcc}" -print-file-name=libasan.so)
fi
"$python" -c "import fastcep, sys; sys.exit(not fastcep.__file__.startswith('$work'))"
"$python" -m pytest -q -n 2 --dist worksteal -p no:cacheprovider -m "not (slow or shared or spark)" "${tests[@]}"
echo "debug build: ok" >&2

#!/usr/bin/env bash
# usage: ci/tests.sh PYTHON MARKS SPARK_MARKS -- run the tests that MARKS selects in two processes and, at the same time,
# the Spark tests that SPARK_MARKS selects. Their output follows at the end. Both run to their end, even if one fails.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
spark=
# Runs at every end, also after Ctrl-C, which does not reach background processes.
finish() {
    if [ -n "$spark" ]; then kill -TERM -- "-$spark" 2>/dev/null || true; fi
    rm -f "$log"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

set -m # a process group of its own, so that Python and Java can be stopped together
ci/spark_tests.sh "$1" "$3" >"$log" 2>&1 </dev/null &
spark=$!
set +m
tests=0
"$1" -m pytest -q -n 2 --dist worksteal -m "$2" || tests=$?
echo "Spark tests (ci/spark_tests.sh), which ran at the same time:"
spark_tests=0
wait "$spark" || spark_tests=$?
spark=
cat "$log"
[ "$tests" = 0 ] || echo "FAILED: tests (exit code $tests); see above the Spark tests" >&2
[ "$spark_tests" = 0 ] || echo "FAILED: Spark tests (exit code $spark_tests)" >&2
[ "$tests" = 0 ] && [ "$spark_tests" = 0 ]

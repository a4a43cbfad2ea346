#!/usr/bin/env bash
# usage: ci/spark_tests.sh PYTHON [MARKS] -- run the Spark tests in one session; MARKS is a pytest expression that selects them.
set -euo pipefail
cd "$(dirname "$0")/.."
ci/find_java.sh >/dev/null
"$1" -m pytest -q -n 0 -m "spark and (${2:-spark})" tests/spark tests/cli/test_spark_option.py tests/test_docs.py

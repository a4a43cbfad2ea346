#!/usr/bin/env bash
# usage: ci/bench.sh BASE [PYTHON] -- fail if the current sources are slower than the revision BASE by more than the noise.
# Both are built and measured in one job, their passes interleaved. RUNS and PASSES set the number of runs and passes.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:?"usage: ci/bench.sh BASE [PYTHON]; BASE is a revision such as origin/main"}
python=${2:-.venv/bin/python}
PYTHONPATH=$PWD exec "$python" -m bench.compare_versions "$base" . --gate --runs "${RUNS:-9}" --passes "${PASSES:-11}"

#!/usr/bin/env bash
# usage: ci/copy_tree.sh TARGET -- copy the sources, without the files that git ignores, into the existing folder TARGET.
set -euo pipefail
cd "$(dirname "$0")/.."
tar --create --exclude=.git --exclude-from=.gitignore . | tar --extract --directory "$1"

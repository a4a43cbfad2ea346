#!/usr/bin/env bash
# Print the path of a Java that Spark 4 supports (17 or newer); fail with installation instructions if there is none.
set -euo pipefail
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p') || version=""
if [ "${version:-0}" -ge 17 ]; then
    command -v "$java"
    exit 0
fi
echo "Spark needs Java 17 or newer. Debian: apt-get install openjdk-17-jre-headless (or default-jre-headless); macOS: brew install openjdk" >&2
exit 1

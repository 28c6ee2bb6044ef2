#!/bin/sh
# Installs what `make test-slow` uses beyond Python and a Java runtime: a JDK, whose compiler runs the Java oracles.
set -eu

have_jdk() {
    for home in "${JAVA_HOME:-/nonexistent}" /usr/lib/jvm/*; do
        [ -x "$home/bin/javac" ] && "$home/bin/javac" -version 2>&1 | grep -Eq '^javac (17|21)\.' && return 0
    done
    return 1
}

if have_jdk; then
    echo "deps-ci: a JDK 17 or 21 is installed already"
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "deps-ci: no apt-get here; install a JDK 17 or 21 (Fedora: java-21-openjdk-devel, macOS: openjdk@21)" >&2
    exit 3
fi
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
$as_root apt-get update -qq
for package in openjdk-17-jdk-headless openjdk-21-jdk-headless; do
    if apt-cache show "$package" >/dev/null 2>&1; then
        exec $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package"
    fi
done
echo "deps-ci: apt offers neither openjdk-17-jdk-headless nor openjdk-21-jdk-headless" >&2
exit 3

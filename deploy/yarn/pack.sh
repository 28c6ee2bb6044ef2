#!/bin/sh
# Packs the Python environment that YARN's containers unpack: deploy/yarn/pack.sh [target.tar.gz]
#
# REQUIREMENTS=quality packs great-expectations too, without which the job audits nothing (docs/tables.md).
#
# The interpreter inside is the one of the machine: the nodes need the same distribution of Python at the same
# place (PYTHON, default python3.11). pyspark is left out: Spark on YARN brings its own.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
target=${1:-$root/deploy/yarn/environment.tar.gz}
pinned=$root/requirements/${REQUIREMENTS:-demo}.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3.11}" -m venv --copies "$work/environment"
pip="$work/environment/bin/python -m pip --disable-pip-version-check"
$pip install --quiet --require-hashes -r "$root/requirements/build.txt" -r "$pinned"
$pip install --quiet --no-deps --no-build-isolation "$root"
# What is in it, and pyspark, which is not.
"$work/environment/bin/python" "$root/tools/sbom.py" "$pinned"
mv "$root/build/sbom.json" "$work/environment/"
$pip uninstall --quiet --yes pyspark py4j
tar -czf "$target" -C "$work/environment" .
echo "$target"

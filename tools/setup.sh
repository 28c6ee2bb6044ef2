#!/bin/sh
# Picks a fitting Python (3.11 to 3.13) and hands over to tools/setup.py; says what to install if there is none.
# PYTHON=/path/to/python overrides the choice. A virtual environment that already exists keeps its own.
set -u
cd "$(dirname "$0")/.." || exit 1

fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}
makes_environments() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null
}

found=""
for python in .venv/bin/python "${PYTHON:-}" python3.11 python3.12 python3.13 python3 python; do
    { [ -n "$python" ] && command -v "$python" >/dev/null 2>&1; } || continue
    if fits "$python"; then
        if makes_environments "$python"; then
            exec "$python" tools/setup.py "$@"
        fi
        found="$found
  $(command -v "$python"): has no venv module (Debian/Ubuntu pack it apart)"
    else
        version=$("$python" --version 2>&1 | head -n 1) || continue
        found="$found
  $(command -v "$python"): $version"
    fi
done

cat >&2 <<MESSAGE
Python 3.11, 3.12 or 3.13 with its venv module is needed. Found: ${found:-no Python at all.}
Install one:
  Debian/Ubuntu   sudo apt install python3 python3-venv     (Debian 12+, Ubuntu 24.04+)
  Fedora          sudo dnf install python3.13
  macOS           brew install python@3.13
or name one: make PYTHON=/path/to/python3.13 …
MESSAGE
exit 3

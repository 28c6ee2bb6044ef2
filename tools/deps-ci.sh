#!/bin/sh
# Installs what `make test-slow` uses beyond Python and a Java runtime. What is there already is left alone.
# One `ensure` line per need: what it is, how to see that it is there, and the packages of which one is enough.
set -eu

as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
updated=""

have() { command -v "$1" >/dev/null 2>&1; }

have_jdk() {
    for home in "${JAVA_HOME:-/nonexistent}" /usr/lib/jvm/*; do
        [ -x "$home/bin/javac" ] && "$home/bin/javac" -version 2>&1 | grep -Eq '^javac (17|21)\.' && return 0
    done
    return 1
}

have_go() {
    have go && go version | grep -Eq 'go1\.(2[3-9]|[3-9][0-9])'
}

have_kdc() {
    PATH="$PATH:/usr/sbin:/sbin" have krb5kdc && PATH="$PATH:/usr/sbin:/sbin" have kadmin.local
}

# ensure NAME CHECK PACKAGE...
ensure() {
    name=$1 check=$2
    shift 2
    if $check; then
        echo "deps-ci: $name is installed already"
        return
    fi
    if ! have apt-get; then
        echo "deps-ci: no apt-get here; install $name (Debian: $*)" >&2
        exit 3
    fi
    [ -n "$updated" ] || $as_root apt-get update -qq
    updated=yes
    for package in "$@"; do
        if apt-cache show "$package" >/dev/null 2>&1; then
            # RUNLEVEL=1: the tests start their own servers, the package must not start one.
            $as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
                apt-get install -y -qq --no-install-recommends "$package"
            return
        fi
    done
    echo "deps-ci: apt offers none of: $*" >&2
    exit 3
}

# ensure_go NAME PROGRAM MODULE: into Go's own folder of programs, where the tests look as well.
ensure_go() {
    if have "$2" || [ -x "$(go env GOPATH)/bin/$2" ]; then
        echo "deps-ci: $1 is installed already"
    else
        go install "$3"
    fi
}

# The compiler of the Java oracles.
ensure "a JDK 17 or 21" have_jdk openjdk-17-jdk-headless openjdk-21-jdk-headless
# Compiles the Go clients of the lab, and runs its Node one.
ensure "Go 1.23 or later" have_go golang-go
ensure "Node" "have node" nodejs
ensure "npm" "have npm" npm
# What checks the Helm chart and the workflows of .github: by their modules, for Debian has neither.
ensure_go "Helm" helm helm.sh/helm/v3/cmd/helm@v3.22.0
ensure_go "actionlint" actionlint github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
# What alerts are compared with and pushed to.
ensure "Alertmanager" "have prometheus-alertmanager" prometheus-alertmanager
# The browser that the live page is tried in.
ensure "Chromium" "have chromium" chromium
# What checks the rules, scrapes the metrics and answers the dashboards' queries.
ensure "Prometheus" "have promtool" prometheus
# Compiles what sets the clock of a process (make chaos ARGS="-k clock").
ensure "a C compiler" "have cc" build-essential
# The realm of the Kerberos logins; its server starts the KDC's package with it.
ensure "a Kerberos KDC" have_kdc krb5-admin-server

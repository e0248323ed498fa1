#!/usr/bin/env bash
# The environment in .venv: Python 3.11 to 3.13, Java 17 or 21, every package with its hash. Quick when nothing changed.
# What is missing is answered with the one command that installs it; with CI=true that command is run.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=.venv
STAMP=$VENV/.stamp
JAVA_HOME_FILE=$VENV/.java-home

say() { printf '%s\n' "$*" >&2; }

# install_command PACKAGE: how this machine installs it, for a person to paste.
install_command() {
    local sudo=""
    [ "$(id -u)" = 0 ] || sudo="sudo "
    if command -v apt-get >/dev/null; then
        echo "${sudo}apt-get update && ${sudo}apt-get install -y $1"
    elif command -v dnf >/dev/null; then
        echo "${sudo}dnf install -y ${2:-$1}"
    else
        echo "brew install ${3:-$1}"
    fi
}

# missing WHAT COMMAND: run the command in CI, else say it and stop.
missing() {
    if [ "${CI:-}" = true ] && command -v apt-get >/dev/null; then
        say "$1; installing it"
        DEBIAN_FRONTEND=noninteractive bash -c "$2" >&2
    else
        say "$1. Install it with:"
        say "    $2"
        exit 1
    fi
}

python_fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null && python_fits "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# java_version BINARY: its major version, nothing when it does not run (macOS ships a stub).
java_version() {
    "$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1
}

java_fits() {
    case "$(java_version "$1")" in 17 | 21) return 0 ;; *) return 1 ;; esac
}

# The first Java that fits: JAVA_HOME's, the path's, then those that are installed but not chosen.
find_java() {
    local candidate
    for candidate in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)" \
        /usr/lib/jvm/*/bin/java /opt/homebrew/opt/openjdk@*/bin/java /Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java; do
        if [ -x "$candidate" ] && java_fits "$candidate"; then
            readlink -f "$candidate" | sed 's|/bin/java$||'
            return
        fi
    done
    return 1
}

java_package() {
    local version
    for version in 17 21; do
        if apt-cache show "openjdk-$version-jre-headless" >/dev/null 2>&1; then
            echo "openjdk-$version-jre-headless"
            return
        fi
    done
    echo openjdk-17-jre-headless
}

need_java() {
    if ! find_java >/dev/null; then
        local found="none is installed"
        if command -v java >/dev/null; then found="found version $(java_version java)"; fi
        if [ "${CI:-}" = true ] && command -v apt-get >/dev/null; then apt-get update -qq >&2; fi
        missing "Java 17 or 21 is needed for Spark ($found)" \
            "$(install_command "$(java_package)" java-17-openjdk-headless openjdk@17)"
    fi
    find_java || { say "Java 17 or 21 is needed for Spark, and installing it did not help"; exit 1; }
}

need_python() {
    find_python >/dev/null ||
        missing "Python 3.11, 3.12 or 3.13 is needed (found $(python3 --version 2>&1 || echo none))" \
            "$(install_command "python3 python3-venv" python3.12 python@3.12)"
    find_python || { say "Python 3.11, 3.12 or 3.13 is needed, and installing it did not help"; exit 1; }
}

# What the environment is made of; anything else leaves it as it is.
wanted() {
    { "$1" --version; pwd; cat requirements/dev.txt pyproject.toml spark_client/pyproject.toml; } | sha256sum
}

install() {
    local python=$1
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        missing "Python's venv module is missing" "$(install_command "$(basename "$(readlink -f "$python")")-venv")"
    fi
    say "setting up $VENV (once; some minutes)"
    rm -rf "$VENV"
    "$python" -m venv "$VENV"
    "$VENV/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
    "$VENV/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e spark_client
    say "compiling kernels (once; half a minute)"
    env -u PYTHONDONTWRITEBYTECODE "$VENV/bin/python" -c "from oncegate.app import compile_kernels; compile_kernels()"
}

java_home=$(need_java)
python=$(need_python)
if [ "$(cat "$STAMP" 2>/dev/null)" != "$(wanted "$python")" ]; then
    install "$python"
    wanted "$python" >"$STAMP"
fi
echo "$java_home" >"$JAVA_HOME_FILE"

#!/usr/bin/env bash
# The environment in .venv: Python 3.11 to 3.13, Java 17 or 21, every package with its hash. Quick when nothing changed.
# All that is missing is answered at once, with the one command that installs it; with CI=true that command is run.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=.venv
STAMP=$VENV/.stamp
JAVA_HOME_FILE=$VENV/.java-home
# What `make wheels` keeps: a set-up takes all packages from there, if it can.
WHEELS=$PWD/wheels

# Where a Java may lie that is not chosen, and what tells which system this is; tests name others.
: "${JAVA_PLACES=/usr/lib/jvm/*/bin/java /opt/homebrew/opt/openjdk@*/bin/java /Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java}"
: "${OS_RELEASE=/etc/os-release}"
# What .venv takes, and a little for compiled kernels.
ROOM_KB=1700000

# An activated .venv is what is replaced here: its own Python cannot make the next one.
leave_venv() {
    local kept=":$PATH:" own=":$PWD/$VENV/bin:"
    while [[ $kept == *"$own"* ]]; do kept=${kept/"$own"/:}; done
    kept=${kept#:}
    PATH=${kept%:}
}
leave_venv

say() { printf '%s\n' "$*" >&2; }

# install_command APT DNF BREW: how this machine installs these packages, for a person to paste.
install_command() {
    local sudo=""
    [ "$(id -u)" = 0 ] || sudo="sudo "
    if have apt-get; then
        echo "${sudo}apt-get update && ${sudo}apt-get install -y $1"
    elif have dnf; then
        echo "${sudo}dnf install -y $2"
    else
        echo "brew install $3"
    fi
}

# What is missing, in words, and the packages that bring it, by apt, dnf and brew; all is asked for at once.
WORDS=() APT=() DNF=() BREW=()

# missing WORDS APT DNF BREW
missing() {
    WORDS+=("$1") APT+=($2) DNF+=(${3:-$2}) BREW+=(${4:-$2})
}

# Install in CI what is missing; else say all of it and stop.
ask() {
    [ ${#WORDS[@]} -gt 0 ] || return 0
    local words command
    # Nothing here needs git, but whoever works on the code will.
    have git || { APT+=(git) DNF+=(git) BREW+=(git); }
    command=$(install_command "${APT[*]}" "${DNF[*]}" "${BREW[*]}")
    printf -v words '%s\n' "${WORDS[@]}"
    if [ "${CI:-}" = true ] && have apt-get; then
        say "${words}installing it"
        DEBIAN_FRONTEND=noninteractive bash -c "$command" >&2
    else
        say "${words}Install it with:"
        say "    $command"
        exit 1
    fi
}

have() { command -v "$1" >/dev/null; }

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
    # Java 8 calls itself 1.8.
    "$1" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

java_fits() {
    case "$(java_version "$1")" in 17 | 21) return 0 ;; *) return 1 ;; esac
}

# The first Java that fits: JAVA_HOME's, the path's, then those that are installed but not chosen.
find_java() {
    local candidate
    for candidate in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)" \
        $JAVA_PLACES; do
        if [ -x "$candidate" ] && java_fits "$candidate"; then
            readlink -f "$candidate" | sed 's|/bin/java$||'
            return
        fi
    done
    return 1
}

# can_install PACKAGE: apt has a version of it. `apt-cache show` would also know names that others only refer to.
can_install() {
    LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep -q '^  Candidate: [^(]'
}

# The one that apt has; before its first update that is known by the system: Debian has no 17 since 13.
java_package() {
    local version
    for version in 17 21; do
        if can_install "openjdk-$version-jre-headless"; then
            echo "openjdk-$version-jre-headless"
            return
        fi
    done
    if (. "$OS_RELEASE" && [ "$ID" = debian ] && [ "${VERSION_ID:-13}" -ge 13 ]) 2>/dev/null; then
        echo openjdk-21-jre-headless
    else
        echo openjdk-17-jre-headless
    fi
}

# Which Java there is, in words, when none fits.
java_found() {
    local found=""
    if [ -n "${JAVA_HOME:-}" ]; then
        found="no bin/java in JAVA_HOME=$JAVA_HOME"
        if [ -x "$JAVA_HOME/bin/java" ]; then
            found="version $(java_version "$JAVA_HOME/bin/java") in JAVA_HOME=$JAVA_HOME"
        fi
    fi
    if have java; then found="${found:+$found, }version $(java_version java) in PATH"; fi
    echo "${found:+found }${found:-none is installed}"
}

find_missing() {
    local python
    have make || missing "make is missing" make
    if ! python=$(find_python); then
        missing "Python 3.11, 3.12 or 3.13 is needed (found $(have python3 && python3 --version 2>&1 || echo none))" \
            "python3 python3-venv" python3.12 python@3.12
    elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        missing "Python's venv module is missing" "$(basename "$(readlink -f "$python")")-venv"
    fi
    find_java >/dev/null ||
        missing "Java 17 or 21 is needed for Spark ($(java_found))" "$(java_package)" java-17-openjdk-headless openjdk@17
}

# need_room [stop]: say that there is none, before anything is downloaded.
need_room() {
    local free_kb
    free_kb=$(df -Pk . 2>/dev/null | sed -n '2s/^.* \([0-9][0-9]*\)  *[0-9]*% .*$/\1/p')
    if [ -n "$free_kb" ] && [ "$free_kb" -lt "$ROOM_KB" ]; then
        say "1.7 GB of disk are needed below $PWD, and $((free_kb / 1000)) MB are free: make room"
        [ $# -eq 0 ] || exit 1
    fi
}

# What the environment is made of; anything else leaves it as it is.
wanted() {
    { "$1" --version; pwd; cat requirements/dev.txt pyproject.toml spark_client/pyproject.toml; } | sha256sum
}

# What was there comes back when the packages cannot be had: no network is no reason to lose it.
give_back() {
    rm -rf "$VENV"
    if [ -d "$VENV.before" ]; then mv "$VENV.before" "$VENV"; fi
    say "The packages could not be fetched. A set-up needs a Python package index, or the folder wheels of this tree, which"
    say "\`make wheels\` fills where there is an index, for the same version of Python. $VENV is as it was."
    exit 1
}

# packages OPTION...: every one by its hash; a source package is built as each pip does it, by its pyproject or setuptools.
packages() {
    "$VENV/bin/pip" install --quiet --disable-pip-version-check --use-pep517 --require-hashes -r requirements/dev.txt "$@"
}

fetch() {
    if [ -d "$WHEELS" ]; then
        if packages --no-index --find-links "$WHEELS" 2>/dev/null; then return; fi
        say "wheels lacks some of requirements/dev.txt: asking for them"
    fi
    packages
}

install() {
    local python=$1
    say "setting up $VENV (once; some minutes)"
    # One without a stamp is half made.
    if [ -f "$STAMP" ]; then rm -rf "$VENV.before" && mv "$VENV" "$VENV.before"; else rm -rf "$VENV"; fi
    "$python" -m venv "$VENV"
    fetch || give_back
    "$VENV/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation -e . -e spark_client || give_back
    rm -rf "$VENV.before"
    env -u PYTHONDONTWRITEBYTECODE "$VENV/bin/python" -c "from oncegate.app import compile_kernels; compile_kernels()"
}

if [ "${CI:-}" = true ] && have apt-get && ! { find_python && find_java; } >/dev/null; then apt-get update -qq >&2; fi
find_missing
if [ ${#WORDS[@]} -gt 0 ] && [ ! -d "$VENV" ]; then need_room; fi
ask
java_home=$(find_java) || { say "Java 17 or 21 is needed for Spark, and installing it did not help"; exit 1; }
python=$(find_python) || { say "Python 3.11, 3.12 or 3.13 is needed, and installing it did not help"; exit 1; }
if [ "$(cat "$STAMP" 2>/dev/null)" != "$(wanted "$python")" ]; then
    need_room stop
    install "$python"
    wanted "$python" >"$STAMP"
fi
echo "$java_home" >"$JAVA_HOME_FILE"

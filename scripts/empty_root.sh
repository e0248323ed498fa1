#!/usr/bin/env bash
# Tries this commit as somebody would who has an empty Debian and no rights: from a tarball without git, in a root that
# debootstrap makes and that is removed at the end. What set-up asks for is installed by the one line that it prints.
#     scripts/empty_root.sh trixie make test ARGS=tests/core
# Needs root, debootstrap, a network, 6 GB below TMPDIR. PIP_CERT is taken along where it is set.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

# as_newcomer COMMAND...: in the tree, with nothing of this environment.
as_newcomer() {
    chroot --userspec=newcomer:newcomer "$root" env -i HOME=/home/newcomer USER=newcomer TERM=dumb \
        PATH=/usr/local/bin:/usr/bin:/bin ${PIP_CERT:+PIP_CERT=/etc/pip.pem} \
        bash -c 'cd ~/oncegate && exec "$@"' bash "$@"
}

# trust BUNDLE: whom this network's certificates are of; each in a file of its own, as Java's packages take them.
trust() {
    install -m 644 "$1" "$root/etc/pip.pem"
    mkdir -p "$root/usr/local/share/ca-certificates"
    awk -v to="$root/usr/local/share/ca-certificates" \
        '/BEGIN CERTIFICATE/ { number++ } number { print > (to "/network-" number ".crt") }' "$1"
}

build() {
    debootstrap --variant=minbase "$suite" "$root" >"$root.log" || { tail -n 5 "$root.log" >&2; exit 1; }
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    # As Debian's installer writes it: Spark asks for the address of its own host.
    printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$(hostname)" >"$root/etc/hosts"
    [ -z "${PIP_CERT:-}" ] || trust "$PIP_CERT"
    chroot "$root" useradd --create-home newcomer
    mkdir "$root/home/newcomer/oncegate"
    git archive HEAD | tar -x -C "$root/home/newcomer/oncegate"
    chroot "$root" chown -R newcomer: /home/newcomer/oncegate
}

# What set-up lacks, in one round: a second question fails.
provide() {
    local said
    if said=$(as_newcomer scripts/setup.sh 2>&1); then return; fi
    say "$said"
    said=$(tail -n 1 <<<"$said")
    chroot "$root" env -i PATH="$PATH" HOME=/root DEBIAN_FRONTEND=noninteractive bash -c "${said//sudo /}" >"$root.log" 2>&1 ||
        { tail -n 5 "$root.log" >&2; exit 1; }
}

if [ "${1:-}" = --inside ]; then
    suite=$2 root=$3
    shift 3
    build
    mount --rbind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    provide
    as_newcomer make setup
    as_newcomer "$@"
    exit
fi
if [ $# -lt 2 ] || [ "$(id -u)" != 0 ]; then
    say "as root: scripts/empty_root.sh SUITE COMMAND..., for example: scripts/empty_root.sh bookworm make test"
    exit 2
fi
suite=$1
shift
root=$(mktemp -d -t "oncegate-$suite.XXXXXX")
chmod 755 "$root"
trap 'rm -rf --one-file-system "$root" "$root.log"' EXIT
# Mounts and processes end with their namespaces.
unshare --mount --pid --fork --kill-child scripts/empty_root.sh --inside "$suite" "$root" "$@"

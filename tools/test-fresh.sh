#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The two README commands in clean Debian trees: debootstrap into .output/fresh-SUITE, a clone of what
# is committed here, `make demo` and `make test` inside by chroot, on this host's kernel.
# Can be interrupted: what is done for a commit is not done again.
set -euo pipefail

usage() {
	cat <<'TEXT'
usage: tools/test-fresh.sh [SUITE…]     bookworm and trixie (Debian 12 and 13) if none is named
Environment: STEPS (demo test), FORCE=1 (do again what is done already)
TEXT
}

case ${1:-} in
-h | --help) usage && exit 0 ;;
-*) usage >&2 && exit 2 ;;
esac
[ $# -gt 0 ] || set -- bookworm trixie

root=$(cd "$(dirname "$0")/.." && pwd)
commit=$(git -C "$root" rev-parse HEAD)
commands=${STEPS:-demo test}

die() {
	echo "test-fresh: $*" >&2
	exit 1
}

[ "$(id -u)" = 0 ] || die "needs root for chroot, namespaces and BPF: sudo $0"
if ! command -v debootstrap >/dev/null; then
	echo "test-fresh: installing from Debian: debootstrap"
	apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
fi

# The mirror is that of this host's own sources.
mirror() {
	# shellcheck disable=SC2016 # apt's own variables
	apt-get indextargets --format '$(REPO_URI) $(LABEL)' 'Created-By: Packages' |
		sed -n 's/ Debian$//p' | head -n 1
}

# bootstrap SUITE TREE
bootstrap() {
	local suite=$1 tree=$2 from
	[ ! -e "$tree/.bootstrapped" ] || return 0
	from=$(mirror)
	[ -n "$from" ] || die "this host's apt sources name no Debian mirror"
	echo "test-fresh: $suite: debootstrap (one or two minutes)"
	rm -rf --one-file-system "$tree"
	mkdir -p "$tree"
	debootstrap --variant=minbase --include=make,git,ca-certificates "$suite" "$tree" "$from" \
		>"$tree.log" 2>&1 || die "debootstrap failed: see $tree.log"
	touch "$tree/.bootstrapped"
}

# How this host reaches its mirror and what it trusts; nothing else of it.
settings() {
	local tree=$1
	apt-config dump | grep -E '^Acquire::(http|https|Check|Retries)' >"$tree/etc/apt/apt.conf.d/90host" || true
	cp -L /etc/resolv.conf /etc/hosts "$tree/etc/"
	cp -L /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/" 2>/dev/null || true
}

clone() {
	local tree=$1
	if [ -d "$tree/root/kvsteer/.git" ]; then
		git -C "$tree/root/kvsteer" fetch -q "$root" "$commit"
		git -C "$tree/root/kvsteer" checkout -q --force --detach "$commit"
	else
		git clone -q --no-hardlinks "$root" "$tree/root/kvsteer"
		git -C "$tree/root/kvsteer" checkout -q --detach "$commit"
	fi
}

# inside TREE COMMAND…: mounts and processes are the command's own and end with it
inside() {
	local tree=$1
	shift
	# shellcheck disable=SC2016 # $1 and what follows are the inner shell's
	unshare --mount --pid --fork --kill-child=KILL --propagation private bash -c '
		set -e
		tree=$1
		shift
		mount --bind "$tree" "$tree" # a root that is a mount, as every machine has
		mount -t proc proc "$tree/proc"
		mount --rbind /sys "$tree/sys"
		mount --rbind /dev "$tree/dev"
		mount -t tmpfs tmpfs "$tree/run"
		mount -t tmpfs tmpfs "$tree/tmp"
		exec chroot "$tree" /usr/bin/env -u MAKEFLAGS -u MAKELEVEL HOME=/root LANG=C.UTF-8 \
			PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			make --no-print-directory -C /root/kvsteer "$@"' - "$tree" "$@"
}

# step SUITE TREE COMMAND
step() {
	local suite=$1 tree=$2 what=$3 mark="$2/.done-$3" log="$2.$3.log" start=$SECONDS
	if [ "$(cat "$mark" 2>/dev/null)" = "$commit" ] && [ -z "${FORCE:-}" ]; then
		echo "test-fresh: $suite: make $what: done before"
		return 0
	fi
	echo "test-fresh: $suite: make $what"
	if inside "$tree" "$what" 2>&1 | tee "$log" | sed "s/^/$suite: /"; then
		echo "$commit" >"$mark"
		echo "test-fresh: $suite: make $what: ok, $((SECONDS - start)) s: $(tail -n 1 "$log")"
	else
		echo "test-fresh: $suite: make $what: FAILED, log: $log"
		return 1
	fi
}

failed=0
for suite in "$@"; do
	tree=$root/.output/fresh-$suite
	bootstrap "$suite" "$tree"
	settings "$tree"
	clone "$tree"
	for command in $commands; do
		step "$suite" "$tree" "$command" || failed=1
	done
done
exit $failed

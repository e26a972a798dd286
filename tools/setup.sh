#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Installs what kvsteer needs from Debian's packages, and says what it installs.
# usage: tools/setup.sh build|test|bench|fresh|kernels
set -eu

BUILD="build-essential pkg-config clang llvm libbpf-dev bpftool libelf-dev zlib1g-dev
libevent-dev libc-ares-dev libnl-3-dev libnl-route-3-dev libxxhash-dev libcyaml-dev libyaml-dev
libsystemd-dev libyyjson-dev libzmq3-dev libmsgpack-dev iproute2"
TEST="bats jq curl wrk python3 python3-venv shellcheck clang-format procps util-linux ethtool nftables strace"
BENCH="nginx-light haproxy"
FRESH="debootstrap git"
KERNELS="qemu-system-x86 xz-utils python3-minimal libpython3-stdlib"

case "${1:-build}" in
build) want=$BUILD ;;
test) want="$BUILD $TEST" ;;
bench) want="$BUILD $TEST $BENCH" ;;
fresh) want="$FRESH" ;;
kernels) want="$BUILD $KERNELS" ;;
*) echo "usage: $0 build|test|bench|fresh|kernels" >&2; exit 2 ;;
esac

# libFuzzer's and the sanitizers' runtime is packaged by clang's own version number.
clang_runtime() {
	v=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
	[ -z "$v" ] || echo "libclang-rt-$v-dev"
}

# shellcheck disable=SC1091 # not ours
[ ! -e /etc/os-release ] || . /etc/os-release

# other_release NAME FOR: that release of Debian as a source beside this one's; the pin keeps all of
# it out.
other_release() {
	# shellcheck disable=SC2016 # apt fills it in
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
		grep -v security | head -n 1)
	echo "setup: adding Debian's $1 as a pinned source, for $2 only"
	cat >"/etc/apt/sources.list.d/kvsteer-$1.sources" <<SRC
Types: deb
URIs: $mirror
Suites: $1
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SRC
	cat >"/etc/apt/preferences.d/kvsteer-$1" <<PIN
Package: *
Pin: release n=$1
Pin-Priority: -1
PIN
	apt-get update -qq
}

# yyjson entered Debian with 13 (trixie). On 12 take that one package from there.
yyjson_source() {
	[ "${VERSION_ID:-}" = 12 ] || return 0
	grep -qs libyyjson /etc/apt/preferences.d/kvsteer-trixie && return 0
	other_release trixie libyyjson
	cat >>/etc/apt/preferences.d/kvsteer-trixie <<PIN

Package: libyyjson0 libyyjson-dev
Pin: release n=trixie
Pin-Priority: 500
PIN
}

# 12 has the kernel 6.1, 13 has 6.12; the other one is only unpacked, never installed.
kernel_source() {
	case ${VERSION_ID:-} in
	12) other=trixie ;;
	13) other=bookworm ;;
	*) return 0 ;;
	esac
	[ -e "/etc/apt/sources.list.d/kvsteer-$other.sources" ] && return 0
	if [ "$(id -u)" != 0 ]; then
		echo "setup: not root, and Debian's $other is no source of apt: run: sudo $0 kernels" >&2
		exit 1
	fi
	other_release $other "its kernel"
}

missing() {
	for p in $1; do
		dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || echo "$p"
	done
}

# Without lists nothing can be looked up, nor installed.
[ "$(id -u)" != 0 ] || [ -n "$(find /var/lib/apt/lists -name '*Packages*' 2>/dev/null | head -n 1)" ] ||
	apt-get update -qq
case $want in *clang*) want="$want $(clang_runtime)" ;; esac
[ "${1:-}" != kernels ] || kernel_source
need=$(missing "$want" | tr '\n' ' ')
[ -n "$need" ] || exit 0
if [ "$(id -u)" != 0 ]; then
	echo "setup: not root, and these Debian packages are missing: $need" >&2
	echo "setup: run: sudo $0 $1" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || echo "setup: package lists may be old" >&2
case " $need " in *" libyyjson-dev "*) yyjson_source ;; esac
echo "setup: installing from Debian: $need"
# Daemons that come with a package (nginx, haproxy) must not start: the bench runs its own.
if [ ! -e /usr/sbin/policy-rc.d ]; then
	printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
	chmod +x /usr/sbin/policy-rc.d
	trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
# shellcheck disable=SC2086 # a list of packages
apt-get install -y -qq --no-install-recommends $need >/dev/null

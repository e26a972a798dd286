#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Do the units of packaging/ hold under a real systemd? Boots Debian's kernel and systemd in qemu
# (without KVM: anywhere) with kvsteer installed as `make install` does, and checks there
# (tools/systemd/check.sh). Needs no root and installs nothing here; all is kept in .output/systemd.
set -euo pipefail

usage() {
	cat <<'TEXT'
usage: tools/systemd.sh
One line per check, as the machine says it. Exits 1 if one fails. Log: .output/systemd/log.
Environment: SECONDS_MAX (600), V=1 (the machine's whole output).
TEXT
}

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
out=.output/systemd

die() {
	echo "systemd: $*" >&2
	exit 2
}

skip() {
	echo "systemd: skipped: $*"
	exit 0
}

# shellcheck source=tools/machine.sh
. tools/machine.sh

case ${1:-} in -h | --help) usage && exit 0 ;; esac
[ $# = 0 ] || { usage >&2; exit 2; }
[ "$(uname -m)" = x86_64 ] || skip "only knows the kernels of x86_64"
command -v qemu-system-x86_64 >/dev/null || skip "qemu-system-x86_64 is missing: apt install qemu-system-x86"

# What the machine is made of, and what is not needed of what that depends on: nothing is configured
# there, by no script of any package.
packages="systemd systemd-sysv dbus bash coreutils util-linux mount grep sed procps kmod iproute2 jq perl-base libc-bin"
without="dpkg tar perl libperl5.* perl-modules-.* lib.*-perl usrmerge adduser debconf passwd init-system-helpers
	libsemanage.* libsepol2? gcc-.*-base mawk"

# shellcheck disable=SC2086 # lists
# names: of all packages that these need, whatever is installed here
names() {
	local uri file
	: >"$out/status"
	apt-get -qq -o Debug::NoLocking=1 -o Dir::State::status="$PWD/$out/status" -o Dir::Cache::pkgcache= \
		-o Dir::Cache::srcpkgcache= --no-install-recommends --print-uris install $packages |
		while read -r uri file _; do
			[ -z "$uri" ] || echo "${file%%_*}"
		done | grep -vxE "$(echo $without | tr ' ' '|')"
}

# base: the tree that is not ours, in $out/base.cpio
base() {
	local tree=$out/base deb list
	[ ! -e "$out/base.cpio" ] || return 0
	list=$(names) || list=
	[ -n "$list" ] || skip "apt cannot have these packages: $packages"
	echo "systemd: fetching $(echo "$list" | wc -l) packages from Debian"
	rm -rf "$tree" "$out/deb" && mkdir -p "$tree" "$out/deb"
	# shellcheck disable=SC2086 # a list
	(cd "$out/deb" && apt-get -o APT::Sandbox::User=root download -qq $list) || skip "packages cannot be fetched"
	skeleton "$tree"
	for deb in "$out"/deb/*.deb; do
		dpkg --fsys-tarfile "$deb" | tar -x -C "$tree" --keep-directory-symlink --exclude './usr/share/doc/*' \
			--exclude './usr/share/man/*' --exclude './usr/share/locale/*' --exclude './usr/lib/*/gconv/*' \
			--exclude './usr/lib/*/perl/*' --exclude './usr/lib/locale/*' --exclude './dev/*'
	done
	rm -r "$out/deb"
	settle "$tree"
	archive "$tree" "$out/base.part"
	mv "$out/base.part" "$out/base.cpio"
}

# skeleton TREE: as of a merged /usr
skeleton() {
	local d
	for d in bin sbin lib lib64; do
		mkdir -p "$1/usr/$d"
		ln -sfn "usr/$d" "$1/$d"
	done
	mkdir -p "$1"/{dev,etc,home,proc,root,run,sys,tmp,var}
	ln -sfn /sbin/init "$1/init"
}

# settle TREE: what the packages' own scripts would have done, as far as it is needed
settle() {
	local unit
	printf 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n' >"$1/etc/passwd"
	printf 'root:x:0:\nnogroup:x:65534:\n' >"$1/etc/group"
	printf 'u messagebus - "D-Bus"\n' >"$1/usr/lib/sysusers.d/messagebus.conf"
	: >"$1/etc/machine-id" # made at each start
	echo vm >"$1/etc/hostname"
	# Nobody logs in there, and its clock is right.
	mkdir -p "$1/etc/systemd/system"
	for unit in getty.target systemd-logind.service systemd-timesyncd.service systemd-networkd.service \
		systemd-pstore.service systemd-update-utmp.service systemd-random-seed.service \
		systemd-journal-flush.service modprobe@drm.service; do
		ln -sf /dev/null "$1/etc/systemd/system/$unit"
	done
	ln -sf /lib/systemd/system/multi-user.target "$1/etc/systemd/system/default.target"
}

# ours: kvsteer as installed, the tests' programs and the check itself, in $out/ours.cpio
ours() {
	local tree=$out/ours m
	rm -rf "$tree" && mkdir -p "$tree/modules" "$tree/kvsteer"
	skeleton "$tree"
	make --no-print-directory -s install DESTDIR="$PWD/$tree" PREFIX=/usr
	for m in .output/kv-engine .output/kv-traffic; do program "$m" "$tree"; done
	for m in .output/kvsteerd .output/kvsteer; do libraries "$m" "$tree"; done
	for m in sch_ingress cls_bpf veth; do module "$1" "$m" "$tree"; done
	cp --parents tools/netns.sh tools/systemd/* "$tree/kvsteer"
	mkdir -p "$tree/etc/systemd/system/multi-user.target.wants"
	cp tools/systemd/check.service "$tree/etc/systemd/system"
	ln -s ../check.service "$tree/etc/systemd/system/multi-user.target.wants"
	# What the base has is not to be replaced: it may be newer.
	(cd "$tree" && find usr/lib/x86_64-linux-gnu -type f -name '*.so*') | while read -r m; do
		[ ! -e "$out/base/$m" ] || rm "$tree/$m"
	done
	archive "$tree" "$out/ours.cpio"
	rm -r "$tree"
}

mkdir -p $out
echo "systemd: building"
make --no-print-directory all
fetch_busybox
base
# shellcheck disable=SC1091 # not ours
case $(. /etc/os-release && echo "${VERSION_ID:-}") in
12) v=6.1 ;;
*) v=6.12 ;;
esac
read -r package version < <(newest $v) || skip "apt knows no cloud kernel $v"
release=${package#linux-image-}
kernel "$package" "$version"
ours "$out/$release"
cat $out/base.cpio $out/ours.cpio >$out/initramfs
rm $out/ours.cpio
echo "systemd: booted with kernel $release: some minutes"
boot "$out/$release" "$release" $out/initramfs "${SECONDS_MAX:-600}" 2048 loglevel=3 systemd.show_status=0 >$out/log || true
rm $out/initramfs
[ "${V:-}" != 1 ] || cat $out/log
sed -n 's/\r$//; /^ok /p; /^not ok /p; /^# /p' $out/log
grep -q '^systemd .* ok' $out/log && exit
echo "systemd: FAILED: $out/log" >&2
exit 1

#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Do our programs verify and work on other kernels? Boots Debian's in qemu (without KVM: anywhere),
# loads them there, and runs the agent with an engine and a client. Needs no root and installs nothing
# here; all is kept in .output/kernels.
set -euo pipefail

usage() {
	cat <<'TEXT'
usage: tools/kernels.sh [6.1] [6.12]     both if none is named
One line per kernel: its version, programs, what the verifier walked, and how long all took.
Exits 1 if a program does not verify or run. Logs: .output/kernels/VERSION.log.
Environment: SECONDS_MAX (300, for one machine), V=1 (its whole output).
TEXT
}

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
out=.output/kernels
limit=${SECONDS_MAX:-300}

die() {
	echo "kernels: $*" >&2
	exit 2
}

case ${1:-} in -h | --help) usage && exit 0 ;; esac
[ $# -gt 0 ] || set -- 6.1 6.12
for v in "$@"; do
	[[ $v =~ ^[0-9]+\.[0-9]+$ ]] || { usage >&2; exit 2; }
done
[ "$(uname -m)" = x86_64 ] || die "only knows the kernels of x86_64"
command -v qemu-system-x86_64 >/dev/null || die "qemu-system-x86_64 is missing: apt install qemu-system-x86"

# fetch PACKAGE VERSION DIRECTORY PATTERN…: those files of a Debian package, not installed.
fetch() {
	local to=$3
	[ ! -e "$to/.complete" ] || return 0
	echo "kernels: fetching $1 $2 from Debian"
	rm -rf "$to" "$out/deb" && mkdir -p "$out/deb" "$to"
	(cd "$out/deb" && apt-get -o APT::Sandbox::User=root download -qq "$1=$2")
	shift 3
	dpkg --fsys-tarfile "$out"/deb/*.deb | tar -x -C "$to" --wildcards "$@"
	rm -r "$out/deb"
	touch "$to/.complete"
}

# newest VERSION: the newest signed cloud kernel of it: "PACKAGE VERSION". Also from releases that are
# pinned so low that apt has no candidate: nothing is installed.
newest() {
	apt-cache pkgnames "linux-image-$1." | grep -E "^linux-image-${1//./\\.}\.[0-9].*-cloud-amd64$" |
		xargs -r apt-cache madison | awk -F ' *[|] *' '/Packages$/ {print $2, $1}' |
		sort -V | awk 'END {if (NR) print $2, $1}'
}

# program FILE DIRECTORY: copies it and the libraries it needs.
program() {
	install -D "$1" "$2/bin/$(basename "$1")"
	ldd "$1" | grep -o '/[^ ]*' | while read -r lib; do
		[ -e "$2$lib" ] || install -D "$lib" "$2$lib"
	done
}

# initramfs KERNEL-FILES RELEASE: builds $out/RELEASE.cpio
initramfs() {
	local tree=$out/tree m module
	rm -rf $tree && mkdir -p $tree/modules $tree/bin
	install "$busybox" $tree/bin/busybox
	install tools/kernels/init $tree/init
	for m in $out/load .output/kvsteerd .output/kvsteer .output/kv-engine .output/kv-load; do
		program "$m" $tree
	done
	for m in sch_ingress cls_bpf; do
		module=$(find "$1" -name "$m.ko*")
		[ -n "$module" ] || die "$2 has no module $m"
		xz -dcf "$module" >"$tree/modules/$m.ko"
	done
	(cd $tree && find . | "$busybox" cpio -o -H newc --quiet) >"$out/$2.cpio"
	rm -r $tree
}

boot() { # KERNEL-FILES RELEASE LOG
	timeout "$limit" qemu-system-x86_64 -accel tcg -cpu max -m 1536 -smp 1 -nographic -no-reboot \
		-nodefaults -serial stdio -kernel "$1/boot/vmlinuz-$2" -initrd "$out/$2.cpio" \
		-append "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off" </dev/null >"$3" 2>&1
}

# summary RELEASE LOG: one line from the machine's own.
summary() {
	awk -v release="$1" '
		{ sub(/\r$/, "") }
		$1 == "prog" && $3 == "ok" { n++; insns += $4; ms += $6; split($0, s, "stack ") }
		$1 == "prog" && $3 == "FAIL:" { bad = bad " " $2 }
		$1 == "run" && $3 == "ok" { ran++ }
		$1 == "run" && $3 == "FAIL:" { bad = bad " " $2 " (run)" }
		$1 == "load" && $2 == "ok" { load = $3 }
		$1 == "kernel" && $3 == "ok" { done = 1 }
		END {
			printf "%-28s %d programs verified, %6d insns in %.1f s, ", release, n, insns, ms / 1000
			if (done) { printf "loaded in %.1f s, %d ran: ok\n", load, ran; exit 0 }
			printf "FAILED:%s\n", bad ? bad : " did not come to its end"
			exit 1
		}' "$2"
}

mkdir -p $out
echo "kernels: building"
make --no-print-directory all .output/tools/kernels/load.o .output/tools/kernels/run.o
gcc .output/tools/kernels/load.o .output/tools/kernels/run.o -lbpf -o $out/load
busybox_version=$(apt-cache policy busybox-static | awk '/Candidate:/ {print $2}')
fetch busybox-static "$busybox_version" $out/busybox '*/bin/busybox'
busybox=$PWD/$(find $out/busybox -name busybox -type f)

failed=0
for v in "$@"; do
	read -r package version < <(newest "$v") || die "apt knows no cloud kernel $v: add Debian's source and apt update"
	release=${package#linux-image-}
	fetch "$package" "$version" "$out/$release" '*/vmlinuz-*' '*/sch_ingress.ko*' '*/cls_bpf.ko*'
	initramfs "$out/$release" "$release"
	echo "kernels: booting $release (up to some minutes)"
	boot "$out/$release" "$release" "$out/$v.log" || true
	[ "${V:-}" != 1 ] || cat "$out/$v.log"
	if ! summary "$release" "$out/$v.log"; then
		failed=1
		tail -n 25 "$out/$v.log" | cut -c -200 | sed 's/^/    | /' >&2
	fi
done
exit $failed

#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Do our programs verify and work on other kernels? Boots Debian's in qemu (without KVM: anywhere),
# loads them there, and runs the core test in some places (tools/kernels/places.sh). Needs no root and
# installs nothing here; all is kept in .output/kernels.
set -euo pipefail

usage() {
	cat <<'TEXT'
usage: tools/kernels.sh [6.1] [6.12]     both if none is named
One line per kernel: its version, programs, what the verifier walked, and how long all took; one per
place that the core test ran in. Exits 1 if a program does not verify or run, or the core test fails.
Logs: .output/kernels/VERSION.log.
Environment: SECONDS_MAX (360, for one machine), V=1 (its whole output).
TEXT
}

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
out=.output/kernels
limit=${SECONDS_MAX:-360}

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

# libraries FILE DIRECTORY: copies those that it needs.
libraries() {
	ldd "$1" | sed -n 's:^[^/]*\(/[^ ]*\).*:\1:p' | while read -r lib; do
		[ -e "$2$lib" ] || install -D "$lib" "$2$lib"
	done
}

# program FILE DIRECTORY: copies it and the libraries it needs.
program() {
	install -D "$1" "$2/bin/$(basename "$1")"
	libraries "$1" "$2"
}

# Debian's, whatever else is in PATH.
python=$(PATH=/usr/bin:/bin command -v python3) || die "python3 is missing: apt install python3"

# python_tree DIRECTORY: Python and those of its modules that the core test loads.
python_tree() {
	local f
	install -D "$(readlink -f "$python")" "$1/bin/python3"
	libraries "$python" "$1"
	PYTHONPATH=tests/tools PYTHONDONTWRITEBYTECODE=1 "$python" -c '
import sys, encodings.ascii, encodings.idna, encodings.latin_1, places
for m in list(sys.modules.values()):
    for f in (getattr(m, "__file__", None), getattr(m, "__cached__", None)):
        if f and f.startswith(sys.prefix):
            print(f)' | while read -r f; do
		[ ! -e "$f" ] || { mkdir -p "$1${f%/*}" && cp -p "$f" "$1$f"; }
		case $f in *.so) libraries "$f" "$1" ;; esac
	done
}

# depends MODULE-FILE: names of modules that it needs
depends() {
	xz -dcf "$1" | tr '\0' '\n' | sed -n 's/^depends=//p' | tr ',' '\n'
}

# module KERNEL-FILES NAME DIRECTORY: copies it behind those it needs; modules/order says in what order
module() {
	local file m
	! grep -qsx "$2.ko" "$3/modules/order" || return 0
	file=$(find "$1" -name "$2.ko*")
	[ -n "$file" ] || die "$1 has no module $2"
	for m in $(depends "$file"); do module "$1" "$m" "$3"; done
	xz -dcf "$file" >"$3/modules/$2.ko"
	echo "$2.ko" >>"$3/modules/order"
}

# initramfs KERNEL-FILES RELEASE: builds $out/RELEASE.cpio
initramfs() {
	local tree=$out/tree m
	rm -rf $tree && mkdir -p $tree/modules $tree/bin $tree/kvsteer
	install "$busybox" $tree/bin/busybox
	install tools/kernels/init $tree/init
	cp --parents tools/netns.sh tools/kernels/places.sh tests/places.bash tests/tools/*.py $tree/kvsteer
	for m in $out/load .output/kvsteerd .output/kvsteer .output/kv-engine /bin/bash \
		"$(PATH=$PATH:/usr/sbin:/sbin command -v ip)" "$(PATH=$PATH:/usr/sbin:/sbin command -v bridge)" \
		"$(command -v nsenter)"; do
		program "$m" $tree
	done
	python_tree $tree
	for m in $modules; do module "$1" "$m" $tree; done
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
		$1 == "run" && $3 == "ok," { place[++places] = $2 ", " $4 " " $5 }
		$1 == "run" && $3 == "FAIL:" { bad = bad " " $2 " (run)" }
		$1 == "load" && $2 == "ok" { load = $3 }
		$1 == "kernel" && $3 == "ok" { done = 1 }
		END {
			printf "%-28s %d programs verified, %6d insns in %.1f s, ", release, n, insns, ms / 1000
			if (done) printf "loaded in %.1f s, %d ran: ok\n", load, ran
			else printf "FAILED:%s\n", bad ? bad : " did not come to its end"
			for (i = 1; i <= places; i++) printf "%-28s traffic in place %s: ok\n", release, place[i]
			exit !done
		}' "$2"
}

mkdir -p $out
echo "kernels: building"
make --no-print-directory all .output/tools/kernels/load.o .output/tools/kernels/run.o
gcc .output/tools/kernels/load.o .output/tools/kernels/run.o -lbpf -o $out/load
busybox_version=$(apt-cache policy busybox-static | awk '/Candidate:/ {print $2}')
fetch busybox-static "$busybox_version" $out/busybox '*/bin/busybox'
busybox=$PWD/$(find $out/busybox -name busybox -type f)

modules="sch_ingress cls_bpf veth bridge 8021q bonding"
failed=0 releases=() pids=()
for v in "$@"; do
	read -r package version < <(newest "$v") || die "apt knows no cloud kernel $v: add Debian's source and apt update"
	release=${package#linux-image-}
	fetch "$package" "$version" "$out/$release" '*/vmlinuz-*' '*/kernel/net/*.ko*' \
		'*/kernel/drivers/net/veth.ko*' '*/kernel/drivers/net/bonding/*.ko*'
	initramfs "$out/$release" "$release"
	releases+=("$release")
	boot "$out/$release" "$release" "$out/$v.log" &
	pids+=($!)
done
echo "kernels: booted ${releases[*]}: some minutes"
for v in "$@"; do
	wait "${pids[0]}" || true
	[ "${V:-}" != 1 ] || cat "$out/$v.log"
	if ! summary "${releases[0]}" "$out/$v.log"; then
		failed=1
		tail -n 40 "$out/$v.log" | cut -c -200 | sed 's/^/    | /' >&2
	fi
	releases=("${releases[@]:1}") pids=("${pids[@]:1}")
done
exit $failed

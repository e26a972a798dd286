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

# shellcheck source=tools/machine.sh
. tools/machine.sh

case ${1:-} in -h | --help) usage && exit 0 ;; esac
[ $# -gt 0 ] || set -- 6.1 6.12
for v in "$@"; do
	[[ $v =~ ^[0-9]+\.[0-9]+$ ]] || { usage >&2; exit 2; }
done
[ "$(uname -m)" = x86_64 ] || die "only knows the kernels of x86_64"
command -v qemu-system-x86_64 >/dev/null || die "qemu-system-x86_64 is missing: apt install qemu-system-x86"

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
	archive $tree "$out/$2.cpio"
	rm -r $tree
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
fetch_busybox

modules="sch_ingress cls_bpf veth bridge 8021q bonding"
failed=0 releases=() pids=()
for v in "$@"; do
	read -r package version < <(newest "$v") || die "apt knows no cloud kernel $v: add Debian's source and apt update"
	release=${package#linux-image-}
	kernel "$package" "$version"
	initramfs "$out/$release" "$release"
	releases+=("$release")
	boot "$out/$release" "$release" "$out/$release.cpio" "$limit" 1536 loglevel=4 >"$out/$v.log" &
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

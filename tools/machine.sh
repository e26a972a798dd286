# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# What the virtual machines of kernels.sh and systemd.sh are put together from: files of Debian's
# packages that are fetched once and not installed, and programs from here. Source it; it expects
#	out		where all is kept
#	die MESSAGE	a function that ends the script

# fetch PACKAGE VERSION DIRECTORY PATTERN…: those files of a Debian package, not installed.
fetch() {
	local to=$3
	[ ! -e "$to/.complete" ] || return 0
	echo "${0##*/}: fetching $1 $2 from Debian"
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

# kernel PACKAGE VERSION: fetched to $out/RELEASE
kernel() {
	fetch "$1" "$2" "$out/${1#linux-image-}" '*/vmlinuz-*' '*/kernel/net/*.ko*' \
		'*/kernel/drivers/net/veth.ko*' '*/kernel/drivers/net/bonding/*.ko*'
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

# busybox: fetched; its path is in $busybox
fetch_busybox() {
	local version
	version=$(apt-cache policy busybox-static | awk '/Candidate:/ {print $2}')
	fetch busybox-static "$version" "$out/busybox" '*/bin/busybox'
	busybox=$PWD/$(find "$out/busybox" -name busybox -type f)
}

# archive DIRECTORY FILE: as an initramfs, not compressed: the machine would take longer over it
archive() {
	(cd "$1" && find . | "$busybox" cpio -o -H newc --quiet -R 0:0) >"$2"
}

# boot KERNEL-FILES RELEASE INITRAMFS SECONDS MEGABYTES ARGUMENT…: output on stdout
boot() {
	local kernel=$1/boot/vmlinuz-$2 initramfs=$3 seconds=$4 memory=$5
	shift 5
	timeout "$seconds" qemu-system-x86_64 -accel tcg -cpu max -m "$memory" -smp 1 -nographic -no-reboot \
		-nodefaults -serial stdio -kernel "$kernel" -initrd "$initramfs" \
		-append "console=ttyS0 quiet panic=-1 mitigations=off $*" </dev/null 2>&1
}

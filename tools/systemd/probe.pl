# SPDX-License-Identifier: BSD-2-Clause
# System calls that the unit's sandbox refuses and that root may do without any capability, each with
# the error that it gives: "NAME ERROR", or "NAME done". Numbers of x86_64.
use strict;
use warnings;

my $file = "/tmp/probe-$$";
open(my $fh, '>', $file) or print "tmp $!\n";

sub try {
	my ($name, $number, @arguments) = @_;
	$! = 0;
	print $name, ' ', syscall($number, @arguments) == -1 ? $! : 'done', "\n";
}

try('chown', 92, $file, 0, 0);
try('mlock', 149, $file, 1);
try('io_setup', 206, 1, my $context = "\0" x 8);
try('add_key', 248, 'user', 'probe', 'x', 1, -1);
try('mmap-write-exec', 9, 0, 4096, 6, 0x22, -1, 0);
try('personality', 135, 8);
try('setuid-bit', 90, $file, 04755);
try('packet-socket', 41, 17, 3, 0);
for my $path ('/etc/probe', '/usr/probe', '/var/probe', '/home/probe', '/root/probe', '/dev/probe',
	      '/proc/sys/vm/swappiness', '/run/kvsteer/probe', '/sys/fs/bpf') {
	if (-d $path) {
		print "$path ", mkdir("$path/probe") ? 'written' : $!, "\n";
		rmdir("$path/probe");
		next;
	}
	print "$path ", open(my $out, '>', $path) ? 'written' : $!, "\n";
	unlink($path) if $path =~ /probe$/;
}
print "kmsg ", -e '/dev/kmsg' ? 'there' : 'hidden', "\n";
print "tmp ", -e '/tmp/of-the-host' ? 'shared' : 'private', "\n";
unlink($file);
try('unshare-user', 272, 0x10000000); # last: it is nobody then

#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Inside the virtual machine: kvsteer's units under its systemd. Says TAP, and "systemd VERSION ok" at
# the end if all went well.
set -uo pipefail
cd /kvsteer || exit 1
# shellcheck source=tools/netns.sh
. tools/netns.sh
AT=10.71.1.1:8080
SERVE=0000008000001400 # CAP_NET_ADMIN, CAP_NET_BIND_SERVICE, CAP_BPF
n=0 bad=0

# ok WHAT FUNCTION…: in a shell of its own that ends with the first command that fails
ok() {
	local what=$1 start=$SECONDS
	shift
	(
		set -e
		"$@"
	) >/tmp/out 2>&1
	# shellcheck disable=SC2181 # in a condition it would not end with the first
	if [ $? = 0 ]; then
		echo "ok $((++n)) - $what ($((SECONDS - start)) s)"
		grep '^# ' /tmp/out
	else
		bad=1
		echo "not ok $((++n)) - $what ($((SECONDS - start)) s)"
		{ cat /tmp/out && journalctl -q -u kvsteerd -o cat -n 12; } | cut -c -160 | sed 's/^\(# \)*/# /'
	fi
}

until_true() { # SECONDS COMMAND…
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { echo "not in time: $*"; return 1; }
		sleep 0.2
	done
}

refused() { if "$@"; then return 1; fi; }
prop() { systemctl show -p "$1" --value kvsteerd.service; }
agent() { kvsteer -j status | jq -e 'select(.agent.alive) | .agent.pid'; }
another_agent() { local now; now=$(agent) && [ "$now" != "$1" ] && [ -S /run/kvsteer/kvsteer.sock ]; }
processes() { cat /sys/fs/cgroup/system.slice/kvsteerd.service/cgroup.procs; }
said() { journalctl -q -u kvsteerd -o cat | grep -cE -- "$1" || true; }
lent() { [ "$(kvsteer -j status | jq '[.. | objects | .upstreams?.lent? | numbers] | add')" -ge "$1" ]; }

# traffic NAME OPTION…: kv-traffic in the background
traffic() {
	local name=$1
	shift
	nsenter --net=/run/netns/kv-c1 kv-traffic -j -v --timeout 100 "$@" $AT >"/tmp/$name.json" 2>"/tmp/$name.err" &
	TRAFFIC=$!
}

# steady NAME OPTION…: the same until steady_end, a few requests at a time
steady() {
	local name=$1
	shift
	rm -f /tmp/steady-end "/tmp/$name.json"
	while [ ! -e /tmp/steady-end ]; do
		nsenter --net=/run/netns/kv-c1 kv-traffic -j -v --timeout 100 -n 40 "$@" $AT >>"/tmp/$name.json" 2>"/tmp/$name.err"
	done &
	TRAFFIC=$!
}

steady_end() {
	touch /tmp/steady-end
	wait $TRAFFIC
}

# all_ok NAME: every request was answered as it should
all_ok() {
	jq -s -r '"# \(map(.ok) | add) of \(map(.requests) | add) requests answered"' "/tmp/$1.json"
	head -n 8 "/tmp/$1.err"
	jq -s -e 'length > 0 and all(.requests > 0 and .ok == .requests)' "/tmp/$1.json" >/dev/null
}

# unit_also LINE…: besides what the unit says
unit_also() {
	mkdir -p /run/systemd/system/kvsteerd.service.d
	printf '%s\n' '[Service]' "$@" >/run/systemd/system/kvsteerd.service.d/check.conf
	systemctl daemon-reload
}

# slow NAME SECONDS LENT OPTION…: 4 requests whose answers begin after so long; waits until so many are lent
slow() {
	local name=$1 us=$(($2 * 1000000)) lent=$3
	shift 3
	traffic "$name" -n 4 -c 4 --first-us $us-$us --answer-bytes 20000-20000 "$@"
	until_true 60 lent "$lent"
}

# ---- the machine: a client, an engine, and this gateway between them ------------------------------

while read -r m; do insmod "/modules/$m"; done </modules/order
ip netns attach kv-gw $$
sysctl -qw net.ipv4.ip_forward=1
kv_host kv c 1
kv_host kv e 1
kv_start kv-e1 /tmp/engine kv-engine --listen 10.72.1.2:8000 --name e1 --listen 10.72.1.2:8001 --name e2 --keep-alive-s 0
cat >/etc/kvsteer.yaml <<'YAML'
interfaces: [c1, e1]
services:
- name: chat
  listen: ["*:8080"]
  backends:
  - {name: e1, address: "10.72.1.2:8000"}
YAML
touch /tmp/of-the-host
unit_also WatchdogSec=5min # here a start takes long
echo "# $(systemctl --version | head -n 1), kernel $(uname -r), up after $(cut -d. -f1 /proc/uptime) s"

# ---- installed --------------------------------------------------------------------------------------

units_good() {
	systemd-analyze --man=no verify kvsteerd.service kvsteerd.socket >/tmp/verify 2>&1
	cat /tmp/verify
	[ ! -s /tmp/verify ]
}

ok "systemd-analyze verify: nothing to say about the units" units_good
ok "systemd-sysusers: has made the user at boot" id kvsteer

# ---- started by its socket --------------------------------------------------------------------------

activated() {
	systemctl start kvsteerd.socket
	[ "$(prop ActiveState)" = inactive ]
	traffic first -n 1 -c 1 --hinted 0
	wait $TRAFFIC
	all_ok first
	[ "$(prop ActiveState)" = active ]
	[ "$(said 'ready: 1 of 1 backends up')" = 1 ]
	# the unit's listeners, no others of its own beside them
	[ "$(ss -tlnH 'sport = :8080' | wc -l)" = 2 ]
}

ok "socket activation: the first connection starts the service and is answered" activated
traffic warm -n 200 -c 16 --hinted 100 --delay-us 1000-1000
wait $TRAFFIC
ok "requests of both lanes are served" all_ok warm

# ---- whose and what it may do -----------------------------------------------------------------------

# status PID: what the kernel says of it, in $is
declare -A is
status() {
	local key value
	while IFS=$':\t' read -r key value; do [ -z "$key" ] || is[$key]=$value; done <"/proc/$1/status"
	is[User]=$(stat -c %U "/proc/$1")
}

who() {
	local main agent pid
	main=$(prop MainPID) agent=$(agent)
	for pid in $(processes); do
		status "$pid"
		echo "# ${is[Name]} of ${is[User]}: CapEff ${is[CapEff]} CapBnd ${is[CapBnd]} NoNewPrivs ${is[NoNewPrivs]} Seccomp ${is[Seccomp]}"
		[ "${is[NoNewPrivs]}" = 1 ]
		[ "${is[Seccomp]}" = 2 ]
		[ "${is[CapAmb]}" = 0000000000000000 ]
		# SETUID, SETGID, KILL, SETPCAP, NET_BIND_SERVICE, NET_ADMIN, PERFMON, BPF
		[ $((0x${is[CapBnd]} & ~0xc0000015e0)) = 0 ]
		[ "$pid" != "$main" ] || [ "${is[User]}" = root ]
		[ "$pid" = "$agent" ] || continue
		[ "${is[User]}" = kvsteer ]
		[ "${is[CapEff]} ${is[CapPrm]} ${is[CapBnd]}" = "$SERVE $SERVE $SERVE" ]
		[ "${is[CapInh]}" = 0000000000000000 ]
	done
}

roots() { # PATH MODE
	[ "$(stat -c '%U %a' "$1")" = "root $2" ] || { echo "$1: $(stat -c '%U %a' "$1")"; return 1; }
}

files() {
	roots /run/kvsteer/kvsteer.sock 700
	roots /sys/fs/bpf/kvsteer 700
	[ "$(stat -c '%U %a' /sys/fs/bpf/kvsteer/* | sort -u)" = "root 600" ]
	refused setpriv --reuid kvsteer --clear-groups kvsteer status
}

# probe: what the unit's own process may not do, and root here may; but for the line that runs it, and
# what goes with that, it is the unit
probe() {
	local name refused allowed
	sed -e 's:^ExecStart=.*:ExecStart=/usr/bin/perl /kvsteer/tools/systemd/probe.pl:' -e 's/^Type=.*/Type=oneshot/' \
		-e '/^ExecReload=/d' -e '/^Restart/d' -e '/^Watchdog/d' \
		-e '/^\[Service\]/aEnvironment=LC_ALL=C\nStandardOutput=truncate:/tmp/refused' \
		/lib/systemd/system/kvsteerd.service >/run/systemd/system/probe.service
	systemctl daemon-reload
	systemctl start probe.service || { cat /tmp/refused; journalctl -q -u probe -o cat -n 20; }
	LC_ALL=C perl tools/systemd/probe.pl >/tmp/allowed
	while read -r name refused <&3 && read -r _ allowed <&4; do
		echo "# $name: $refused (else: $allowed)"
		case $name in
		/run/kvsteer/* | /sys/fs/bpf) [ "$refused" = written ] ;;
		*) [ "$refused" != "$allowed" ] ;;
		esac
	done 3</tmp/refused 4</tmp/allowed
	[ "$(wc -l </tmp/refused)" = "$(wc -l </tmp/allowed)" ]
	# what ProtectProc= hides it does not hide from root
	setpriv --reuid kvsteer --regid kvsteer --clear-groups ls -d /proc/1
	refused nsenter --mount="/proc/$(agent)/ns/mnt" setpriv --reuid kvsteer --regid kvsteer --clear-groups ls -d /proc/1
}

ok "processes: users, capabilities, no new privileges, a system call filter" who
ok "pins and control socket are root's; the agent's own user cannot use them by their paths" files
ok "sandbox: the unit may not do what root else may" probe

# ---- reload -----------------------------------------------------------------------------------------

reloads() {
	local pid
	pid=$(agent)
	echo '  - {name: e2, address: "10.72.1.2:8001"}' >>/etc/kvsteer.yaml
	systemctl reload kvsteerd
	kvsteer backend list | grep -q e2
	[ "$(agent)" = "$pid" ]
}

reload_bad() {
	local pid good
	pid=$(agent) good=$(cat /etc/kvsteer.yaml)
	echo 'nonsense: 1' >>/etc/kvsteer.yaml
	refused systemctl reload kvsteerd
	echo "$good" >/etc/kvsteer.yaml
	[ "$(prop ActiveState)" = active ]
	[ "$(agent)" = "$pid" ]
	journalctl -q -o cat -n 20 | grep nonsense
}

ok "systemctl reload: the file's change is in force, by the same agent" reloads
ok "systemctl reload of a bad file: fails, and the service goes on" reload_bad

# ---- restart, crash ---------------------------------------------------------------------------------

steady hinted -c 6 --rate 30 --hinted 100 --answer-bytes 500-20000
sleep 2

restarts() {
	local pid stored=0 now job
	pid=$(agent)
	systemctl restart kvsteerd &
	job=$!
	while kill -0 $job 2>/dev/null; do
		now=$(prop NFileDescriptorStore)
		[ "$now" -le "$stored" ] || stored=$now
		sleep 0.5
	done
	wait $job
	echo "# sockets in the file descriptor store meanwhile: $stored, now: $(prop NFileDescriptorStore)"
	[ "$stored" -gt 5 ]
	until_true 5 [ "$(prop NFileDescriptorStore)" = 0 ]
	[ "$(prop ActiveState)" = active ]
	another_agent "$pid"
	[ "$(said 'taken over: [0-9]+ connections')" = 1 ]
}

ok "systemctl restart: all sockets wait in the file descriptor store" restarts
sleep 1
steady_end
ok "meanwhile no hinted request has failed" all_ok hinted

slow lent 20 4 --hinted 100
crashes() {
	local pid main
	pid=$(agent) main=$(prop MainPID)
	kill -KILL "$pid"
	until_true 60 another_agent "$pid"
	[ "$(prop MainPID) $(prop NRestarts)" = "$main 0" ]
}

ok "kill -9 of the agent: another one takes over; systemd has nothing to do" crashes
wait $TRAFFIC
ok "and no lent stream has broken" all_ok lent

unit_also WatchdogSec=8s # the next start's
slow orphans 20 4 --hinted 100
main_killed() {
	local pid
	pid=$(agent)
	kill -KILL "$(prop MainPID)"
	until_true 60 another_agent "$pid"
	[ "$(prop ActiveState) $(prop NRestarts)" = "active 1" ]
	[ "$(said 'taken over: ')" = 3 ]
}

ok "kill -9 of the main process: systemd ends the rest, starts it again, and it takes the maps over" main_killed
wait $TRAFFIC
ok "and no lent stream has broken" all_ok orphans

stuck() {
	local pid
	pid=$(agent)
	unit_also WatchdogSec=5min
	kill -STOP "$pid"
	until_true 90 another_agent "$pid"
	[ "$(prop NRestarts)" = 2 ]
	[ "$(said 'Watchdog timeout')" = 1 ]
}

ok "watchdog: an agent that is stuck is ended, another one takes over" stuck

# ---- end --------------------------------------------------------------------------------------------

slow drained 8 1 --hinted 50
drains() {
	systemctl stop kvsteerd.socket kvsteerd.service
	[ "$(prop ActiveState)" = inactive ]
	[ "$(prop Result)" = success ]
}

# Those that died with the killed processes while they were lent may try for a while to send their FIN.
sockets() {
	ss -taH state listening state syn-sent state syn-recv state established state close-wait \
		'( sport = :8080 or dport = :8000 or dport = :8001 )'
}
no_sockets() { [ -z "$(sockets)" ]; }

nothing_left() {
	refused ls /sys/fs/bpf/kvsteer
	refused ls /run/kvsteer/kvsteer.sock
	[ -z "$(tc filter show dev c1 ingress)$(tc filter show dev lo egress)$(tc qdisc show | grep clsact)" ]
	until_true 15 no_sockets || { sockets && return 1; }
	[ "$(prop NFileDescriptorStore)" = 0 ]
	refused pgrep kvsteer
	stat -c '# stays: %n' /run/kvsteer/*
}

ok "systemctl stop: drains" drains
wait $TRAFFIC
ok "what was running has been answered" all_ok drained
ok "and nothing is left: no filter, pin, socket or process" nothing_left

[ $bad = 0 ] && echo "systemd $(systemctl --version | sed -n '1s/systemd \([0-9]*\).*/\1/p') ok"
echo "# ended after $(cut -d. -f1 /proc/uptime) s"

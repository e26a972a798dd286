// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <linux/ip.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <netlink/route/link/inet.h>

#include "agent/lock.h"
#include "agent/loopback.h"
#include "common/log.h"

static const struct setting {
	unsigned int id;
	const char *name;
} settings[] = {
	{IPV4_DEVCONF_ACCEPT_LOCAL, "accept_local"},
	/* For engines on 127.0.0.0/8. */
	{IPV4_DEVCONF_ROUTE_LOCALNET, "route_localnet"},
};

#define N_SETTINGS (sizeof(settings) / sizeof(*settings))

/* In the lock's file, beside the qdiscs of interfaces. */
static int mark(const struct setting *s)
{
	return -(int)s->id;
}

/* By rtnetlink: /proc/sys may be read-only to a service. */
static int change(struct nl_sock *sock, const struct setting *s, __u32 value, bool *ret_changed)
{
	struct rtnl_link *lo, *wanted = NULL;
	uint32_t now = 0;
	int err = rtnl_link_get_kernel(sock, 0, "lo", &lo);

	*ret_changed = false;
	if (err < 0)
		return err;
	err = rtnl_link_inet_get_conf(lo, s->id, &now);
	if (!err && now != value) {
		wanted = rtnl_link_alloc();
		err = wanted ? rtnl_link_inet_set_conf(wanted, s->id, value) : -NLE_NOMEM;
		if (!err)
			err = rtnl_link_change(sock, lo, wanted, 0);
		*ret_changed = !err;
	}
	rtnl_link_put(wanted);
	rtnl_link_put(lo);
	return err;
}

void loopback_open(struct nl_sock *sock, struct lock *lock)
{
	for (size_t i = 0; i < N_SETTINGS; i++) {
		bool changed;
		int err = change(sock, &settings[i], 1, &changed);

		if (err)
			kv_warn("interface lo: cannot set %s (%s): answers of this host's IPv4 "
				"engines stop when an address changes: sysctl "
				"net.ipv4.conf.lo.%s=1",
				settings[i].name, nl_geterror(err), settings[i].name);
		if (changed)
			lock_set_qdisc(lock, mark(&settings[i]), true);
	}
}

void loopback_close(struct nl_sock *sock, struct lock *lock)
{
	for (size_t i = 0; i < N_SETTINGS; i++) {
		bool changed;

		if (!lock_has_qdisc(lock, mark(&settings[i])))
			continue;
		change(sock, &settings[i], 0, &changed);
		lock_set_qdisc(lock, mark(&settings[i]), false);
	}
}

// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <ifaddrs.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <netlink/route/route.h>
#include <string.h>

#include "agent/route.h"
#include "common/addr.h"

int route_open(struct nl_sock **ret)
{
	struct nl_sock *sock = nl_socket_alloc();

	if (!sock)
		return -ENOMEM;
	if (nl_connect(sock, NETLINK_ROUTE) < 0) {
		nl_socket_free(sock);
		return -EIO;
	}
	*ret = sock;
	return 0;
}

void route_close(struct nl_sock *sock)
{
	if (sock)
		nl_socket_free(sock);
}

static bool is_port(struct nl_sock *sock, struct rtnl_link *link)
{
	int ifindex = rtnl_link_get_master(link);
	struct rtnl_link *master;
	const char *type;
	bool port;

	if (!ifindex || rtnl_link_get_kernel(sock, ifindex, NULL, &master) < 0)
		return false;
	type = rtnl_link_get_type(master);
	port = type && (!strcmp(type, "bridge") || !strcmp(type, "bond") || !strcmp(type, "team"));
	rtnl_link_put(master);
	return port;
}

int link_get(struct nl_sock *sock, int ifindex, const char *name, struct link_info *ret)
{
	struct rtnl_link *link;
	unsigned int type;

	if (rtnl_link_get_kernel(sock, ifindex, name, &link) < 0)
		return -ENODEV;
	type = rtnl_link_get_arptype(link);
	*ret = (struct link_info){
		.ifindex = rtnl_link_get_ifindex(link),
		.mtu = rtnl_link_get_mtu(link),
		.port = is_port(sock, link),
		.up = rtnl_link_get_flags(link) & IFF_UP,
		.loopback = type == ARPHRD_LOOPBACK,
		.ethernet = type == ARPHRD_ETHER,
	};
	strncpy(ret->name, rtnl_link_get_name(link), sizeof(ret->name) - 1);
	rtnl_link_put(link);
	return 0;
}

/* libnl has no ready-made "ip route get": the request is built here, the answer parsed there. */
static int on_route(struct nl_msg *msg, void *arg)
{
	struct route_info *ret = arg;
	struct rtnl_nexthop *hop;
	struct rtnl_route *route;

	if (nlmsg_hdr(msg)->nlmsg_type != RTM_NEWROUTE ||
	    rtnl_route_parse(nlmsg_hdr(msg), &route) < 0)
		return NL_SKIP;
	hop = rtnl_route_get_nnexthops(route) ? rtnl_route_nexthop_n(route, 0) : NULL;
	if (hop) {
		ret->ifindex = rtnl_route_nh_get_ifindex(hop);
		ret->local = rtnl_route_get_type(route) == RTN_LOCAL;
	}
	rtnl_route_put(route);
	return NL_OK;
}

int route_get(struct nl_sock *sock, const __u32 addr[4], struct route_info *ret)
{
	struct kv_addr a = {.addr = {addr[0], addr[1], addr[2], addr[3]}};
	bool v4 = kv_addr_is_v4(&a);
	struct rtmsg head = {
		.rtm_family = v4 ? AF_INET : AF_INET6,
		.rtm_dst_len = v4 ? 32 : 128,
	};
	struct route_info found = {};
	struct nl_cb *base = nl_socket_get_cb(sock), *cb = nl_cb_clone(base);
	struct nl_msg *msg;
	int err = -NLE_NOMEM;

	msg = nlmsg_alloc_simple(RTM_GETROUTE, NLM_F_REQUEST);
	nl_cb_put(base);
	if (msg && cb) {
		err = nlmsg_append(msg, &head, sizeof(head), NLMSG_ALIGNTO);
		if (!err)
			err = nla_put(msg, RTA_DST, v4 ? 4 : 16, v4 ? &addr[3] : &addr[0]);
		if (!err)
			err = nl_cb_set(cb, NL_CB_VALID, NL_CB_CUSTOM, on_route, &found);
		if (!err)
			err = nl_send_auto(sock, msg);
		/* The answer is one message; it, or an error, is the end of the exchange. */
		if (err >= 0)
			err = nl_recvmsgs(sock, cb);
		if (err >= 0)
			err = nl_wait_for_ack(sock);
	}
	nlmsg_free(msg);
	nl_cb_put(cb);
	if (err < 0)
		return err == -NLE_NOMEM ? -ENOMEM : -ENETUNREACH;
	if (!found.ifindex)
		return -ENETUNREACH;
	*ret = found;
	return 0;
}

int link_of_address(const __u32 addr[4], char ret_name[IFNAMSIZ])
{
	struct ifaddrs *all, *i;
	struct kv_addr a;
	int err = -EADDRNOTAVAIL;

	if (getifaddrs(&all) < 0)
		return -errno;
	for (i = all; i && err; i = i->ifa_next) {
		if (!i->ifa_addr || kv_addr_from_sockaddr(i->ifa_addr, &a) ||
		    memcmp(a.addr, addr, sizeof(a.addr)))
			continue;
		snprintf(ret_name, IFNAMSIZ, "%s", i->ifa_name);
		err = 0;
	}
	freeifaddrs(all);
	return err;
}

bool link_has_address(const char *name)
{
	struct ifaddrs *all, *i;
	struct kv_addr a;
	bool found = false;

	if (getifaddrs(&all) < 0)
		return false;
	for (i = all; i && !found; i = i->ifa_next)
		found = !strcmp(i->ifa_name, name) && i->ifa_addr &&
			!kv_addr_from_sockaddr(i->ifa_addr, &a);
	freeifaddrs(all);
	return found;
}

int link_each_up(int (*fn)(const char *name, void *context), void *context)
{
	struct ifaddrs *all, *i;
	struct kv_addr a;
	int err = 0;

	if (getifaddrs(&all) < 0)
		return -errno;
	for (i = all; i && !err; i = i->ifa_next)
		if (i->ifa_flags & IFF_UP && i->ifa_addr && !kv_addr_from_sockaddr(i->ifa_addr, &a))
			err = fn(i->ifa_name, context);
	freeifaddrs(all);
	return err;
}

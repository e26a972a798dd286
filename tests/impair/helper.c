// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netlink/route/link.h>
#include <netlink/route/link/veth.h>
#include <netpacket/packet.h>
#include <linux/if_ether.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "helper.h"

#define BUFFER (8 << 20)

static void names(int ifindex, char ret_in[IFNAMSIZ], char ret_out[IFNAMSIZ])
{
	snprintf(ret_in, IFNAMSIZ, "kvi%d-in", ifindex);
	snprintf(ret_out, IFNAMSIZ, "kvi%d-out", ifindex);
}

/* No IPv6 there: its own packets would pass for the device's. */
static void silence(const char *name)
{
	char path[80];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6", name);
	f = fopen(path, "w");
	if (!f)
		return;
	fputs("1", f);
	fclose(f);
}

static int up(struct nl_sock *nl, const char *name)
{
	struct rtnl_link *orig = NULL, *change = rtnl_link_alloc();
	int err;

	silence(name);
	err = rtnl_link_get_kernel(nl, 0, name, &orig);
	if (!err) {
		rtnl_link_set_flags(change, IFF_UP);
		rtnl_link_set_mtu(change, 65535);
		err = rtnl_link_change(nl, orig, change, 0);
	}
	rtnl_link_put(orig);
	rtnl_link_put(change);
	return err;
}

static int make_pair(const char *in, const char *out)
{
	struct nl_sock *nl = nl_socket_alloc();
	int err;

	if (!nl)
		return -ENOMEM;
	err = nl_connect(nl, NETLINK_ROUTE);
	if (!err)
		err = rtnl_link_veth_add(nl, out, in, getpid());
	if (!err)
		err = up(nl, out);
	if (!err)
		err = up(nl, in);
	nl_socket_free(nl);
	return err ? -EIO : 0;
}

int helper_add(int ifindex, int prog)
{
	DECLARE_LIBBPF_OPTS(bpf_tc_hook, hook, .attach_point = BPF_TC_INGRESS);
	DECLARE_LIBBPF_OPTS(bpf_tc_opts, opts, .prog_fd = prog);
	char in[IFNAMSIZ], out[IFNAMSIZ];
	int err;

	names(ifindex, in, out);
	err = make_pair(in, out);
	if (err)
		return err;
	hook.ifindex = if_nametoindex(in);
	err = bpf_tc_hook_create(&hook);
	if (!err)
		err = bpf_tc_attach(&hook, &opts);
	return err ? err : (int)if_nametoindex(out);
}

void helper_remove(int ifindex)
{
	char in[IFNAMSIZ], out[IFNAMSIZ];
	struct nl_sock *nl = nl_socket_alloc();
	struct rtnl_link *link = rtnl_link_alloc();

	names(ifindex, in, out);
	if (nl && link && !nl_connect(nl, NETLINK_ROUTE)) {
		rtnl_link_set_name(link, out);
		rtnl_link_delete(nl, link);
	}
	rtnl_link_put(link);
	nl_socket_free(nl);
}

int helper_socket(int ifindex)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_ifindex = ifindex};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), one = 1, room = BUFFER;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room))) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

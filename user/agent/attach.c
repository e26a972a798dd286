// SPDX-License-Identifier: BSD-2-Clause
/*
 * Attaching by tc filters, not by bpf_link: tcx came with 6.6, and we run on 6.1. A filter outlives
 * its agent, so it has a fixed handle by which the next agent finds what a killed one left.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include "agent/attach.h"
#include "agent/lock.h"
#include "agent/loopback.h"
#include "common/log.h"

#define ATTACH_HANDLE KV_MAGIC
#define ATTACH_PRIORITY 1

#define MAX_SEGMENT 32000
#define MIN_SEGMENT 88 /* the kernel's own */

static const enum bpf_tc_attach_point directions[] = {BPF_TC_INGRESS, BPF_TC_EGRESS};

static bool filter_remove(int ifindex, enum bpf_tc_attach_point direction)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = direction);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = ATTACH_HANDLE, .priority = ATTACH_PRIORITY);

	if (bpf_tc_query(&hook, &opts))
		return false;
	opts.flags = opts.prog_fd = opts.prog_id = 0;
	return !bpf_tc_detach(&hook, &opts);
}

/* "There is none" is what is hoped for, and not worth a line. */
static bool filter_exists(int ifindex)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = ATTACH_HANDLE, .priority = ATTACH_PRIORITY);
	libbpf_print_fn_t print = libbpf_set_print(NULL);
	bool exists = !bpf_tc_query(&hook, &opts);

	libbpf_set_print(print);
	return exists;
}

static void qdisc_remove(int ifindex)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);

	bpf_tc_hook_destroy(&hook);
}

static bool attached(const struct attach *attach, int ifindex)
{
	for (int i = 0; i < attach->n; i++)
		if (attach->on[i].ifindex == ifindex)
			return true;
	return false;
}

void attach_clean_leftovers(struct attach *attach)
{
	/* "There is no such filter" is what we hope for, not worth a line per interface. */
	libbpf_print_fn_t print = libbpf_set_print(NULL);
	struct if_nameindex *all = if_nameindex();

	for (struct if_nameindex *i = all; i && i->if_index; i++) {
		bool removed;

		if (attached(attach, i->if_index))
			continue;
		removed = filter_remove(i->if_index, BPF_TC_INGRESS);
		removed |= filter_remove(i->if_index, BPF_TC_EGRESS);
		if (removed)
			kv_info("interface %s: filters of an agent that was killed: removed",
				i->if_name);
		/* Only where our filter was: the index may be another interface's by now. */
		if (lock_has_qdisc(attach->lock, i->if_index)) {
			if (removed)
				qdisc_remove(i->if_index);
			lock_set_qdisc(attach->lock, i->if_index, false);
		}
	}
	if (all)
		if_freenameindex(all);
	libbpf_set_print(print);
}

static void attach_undo(struct attach *attach, int i)
{
	filter_remove(attach->on[i].ifindex, BPF_TC_INGRESS);
	filter_remove(attach->on[i].ifindex, BPF_TC_EGRESS);
	if (attach->on[i].made_qdisc) {
		qdisc_remove(attach->on[i].ifindex);
		lock_set_qdisc(attach->lock, attach->on[i].ifindex, false);
	}
}

/* -EEXIST is usual and no warning. */
static int hook_create(struct bpf_tc_hook *hook)
{
	libbpf_print_fn_t print = libbpf_set_print(NULL);
	int err = bpf_tc_hook_create(hook);

	libbpf_set_print(print);
	return err;
}

int attach_interface(struct attach *attach, const struct link_info *link, const char *what)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = link->ifindex,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);
	const int fds[] = {attach->dp->ingress_fd, attach->dp->egress_fd};
	int err, i = attach->n;
	bool inherited;

	if (attached(attach, link->ifindex))
		return 0;
	if (!link->ethernet && !link->loopback) {
		kv_err("interface %s (%s): not an Ethernet device: kvsteer cannot rewrite its "
		       "packets",
		       link->name, what);
		return -EOPNOTSUPP;
	}
	if (i == ATTACH_MAX) {
		kv_err("interface %s (%s): more than %d interfaces: name those to use", link->name,
		       what, ATTACH_MAX);
		return -E2BIG;
	}
	inherited = lock_has_qdisc(attach->lock, link->ifindex) && filter_exists(link->ifindex);
	err = hook_create(&hook);
	if (err && err != -EEXIST) {
		kv_err("interface %s: cannot add a clsact qdisc: %s%s", link->name, strerror(-err),
		       err == -EPERM ? ": needs CAP_NET_ADMIN, run as root"
				     : ": is sch_ingress in this kernel?");
		return err;
	}
	attach->on[i].ifindex = link->ifindex;
	attach->on[i].made_qdisc = !err || inherited;
	memcpy(attach->on[i].name, link->name, sizeof(link->name));
	if (attach->on[i].made_qdisc)
		lock_set_qdisc(attach->lock, link->ifindex, true);

	for (int d = 0; d < 2; d++) {
		LIBBPF_OPTS(bpf_tc_opts, opts, .handle = ATTACH_HANDLE, .priority = ATTACH_PRIORITY,
			    .prog_fd = fds[d], .flags = BPF_TC_F_REPLACE);

		hook.attach_point = directions[d];
		err = bpf_tc_attach(&hook, &opts);
		if (err) {
			kv_err("interface %s: cannot attach the tc program: %s", link->name,
			       strerror(-err));
			attach_undo(attach, i);
			return err;
		}
	}
	attach->n++;
	if (!attach->min_mtu || link->mtu < attach->min_mtu)
		attach->min_mtu = link->mtu;
	kv_info("interface %s: attached (%s, MTU %u)", link->name, what, link->mtu);
	return 0;
}

static int attach_name(struct attach *attach, const char *name, const char *what)
{
	struct link_info link;
	int err = link_get(attach->routes, 0, name, &link);

	if (err) {
		kv_err("interface %s (%s): there is no such interface: see `ip link`", name, what);
		return err;
	}
	return attach_interface(attach, &link, what);
}

static int attach_named(struct attach *attach, const char *name)
{
	struct link_info link;
	int err = link_get(attach->routes, 0, name, &link);

	if (err) {
		kv_err("interface %s: there is no such interface: see `ip link`", name);
		return err;
	}
	if (!link.up) {
		kv_err("interface %s: is down: ip link set %s up", name, name);
		return -ENETDOWN;
	}
	if (link.port) {
		kv_err("interface %s: is a port of another: name that one: ip link show %s", name,
		       name);
		return -EINVAL;
	}
	if (!link_has_address(name)) {
		kv_err("interface %s: has no address: ip address add … dev %s, or do not name it",
		       name, name);
		return -EADDRNOTAVAIL;
	}
	return attach_interface(attach, &link, "named");
}

static int attach_any(const char *name, void *context)
{
	struct attach *attach = context;
	struct link_info link;

	/* Tunnels beside the Ethernet devices are no obstacle to listening on any address. Ports of
	 * a bridge or a bond: that is attached to, and no packet may be translated twice. */
	if (link_get(attach->routes, 0, name, &link) || !link.ethernet || link.port)
		return 0;
	return attach_interface(attach, &link, "listens on any address");
}

int attach_listen(struct attach *attach, const struct kv_config *config,
		  const struct kv_addr *address)
{
	char name[IFNAMSIZ], text[KV_ADDR_TEXT];
	int err;

	if (config->n_interfaces)
		return 0;
	if (kv_addr_is_any(address))
		return link_each_up(attach_any, attach);
	err = link_of_address(address->addr, name);
	if (err) {
		kv_err("listen %s: no interface has this address: see `ip address`",
		       kv_addr_format(address, text, sizeof(text)));
		return err;
	}
	return attach_name(attach, name, "listen address");
}

int attach_backend(struct attach *attach, const struct kv_config *config,
		   const struct kv_config_backend *backend, struct route_info *ret)
{
	char text[KV_ADDR_TEXT];
	struct link_info link;
	int err = route_get(attach->routes, backend->address.addr, ret);

	if (err) {
		kv_err("backend %s: no route to it: see `ip route get`",
		       kv_addr_format(&backend->address, text, sizeof(text)));
		return err;
	}
	if (config->n_interfaces && !ret->local)
		return 0;
	err = link_get(attach->routes, ret->ifindex, NULL, &link);
	if (err) {
		kv_err("backend %s: its interface %d is gone",
		       kv_addr_format(&backend->address, text, sizeof(text)), ret->ifindex);
		return err;
	}
	return attach_interface(attach, &link, "route to a backend");
}

static void attach_what_is_there(struct attach *attach, const struct kv_config *config)
{
	struct route_info route;

	for (__u32 i = 0; i < config->n_interfaces; i++)
		attach_named(attach, config->interfaces[i]);
	for (__u32 i = 0; i < config->n_services; i++) {
		const struct kv_config_service *service = &config->services[i];

		for (__u32 j = 0; j < service->n_listen; j++)
			attach_listen(attach, config, &service->listen[j]);
		for (__u32 j = 0; j < service->n_backends; j++)
			attach_backend(attach, config, &service->backends[j], &route);
	}
}

int attach_all(struct attach *attach, const struct kv_config *config)
{
	struct route_info route;
	int err = attach_name(attach, "lo", "local clients and engines");

	if (!err)
		loopback_open(attach->routes, attach->lock);
	if (attach->lenient) {
		attach_what_is_there(attach, config);
		return err;
	}

	for (__u32 i = 0; !err && i < config->n_interfaces; i++)
		err = attach_named(attach, config->interfaces[i]);
	for (__u32 i = 0; !err && i < config->n_services; i++)
		for (__u32 j = 0; !err && j < config->services[i].n_listen; j++)
			err = attach_listen(attach, config, &config->services[i].listen[j]);
	/* Backends too before the first socket is opened: all MTUs count for its segment size. */
	for (__u32 i = 0; !err && i < config->n_services; i++)
		for (__u32 j = 0; !err && j < config->services[i].n_backends; j++)
			err = attach_backend(attach, config, &config->services[i].backends[j],
					     &route);
	return err;
}

void attach_close(struct attach *attach)
{
	while (attach->n)
		attach_undo(attach, --attach->n);
	if (attach->lock)
		loopback_close(attach->routes, attach->lock);
}

int attach_max_segment(const struct attach *attach)
{
	/* 40 bytes of IPv6 and 20 of TCP header; options come off by themselves. A client of one
	 * IP version may be paired with a backend of the other, so the larger header counts. */
	int mss = (int)attach->min_mtu - 60;

	/* On lo alone. TCP hands down two segments at a time at least, and where they and their
	 * header exceed 64 KiB, IPv6 puts a jumbogram's extension header before them, which no
	 * connection that has been lent can have. */
	if (mss > MAX_SEGMENT)
		return MAX_SEGMENT;
	return mss < MIN_SEGMENT ? MIN_SEGMENT : mss;
}

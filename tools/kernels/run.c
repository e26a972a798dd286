// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <kvsteer/counters.h>
#include <kvsteer/shared.h>

#include "run.h"

#define PORT 7000 /* not the one that the agent listens on afterwards */

static int verdict(const char *what, const char *wrong)
{
	if (wrong)
		printf("run %s FAIL: %s: %s\n", what, wrong, strerror(errno));
	else
		printf("run %s ok\n", what);
	return wrong ? -1 : 0;
}

/* A service of one backend that is up, on any address of PORT. */
static int set_service(struct kvsteer_bpf *skel)
{
	struct kv_service service = {
		.name = "s",
		.flags = KV_SERVICE_UP,
		.n_backends = 1,
		.body_limit = 1 << 20,
		.n_listen = 1,
		.listen = {{.port = htons(PORT)}},
	};
	struct kv_backend backend = {
		.name = "b",
		.state = KV_BACKEND_UP,
		.capacity = 100000,
		.rate = 1000,
	};
	struct kv_listen listen = {.port = htons(PORT)};
	__u32 zero = 0;

	return bpf_map_update_elem(bpf_map__fd(skel->maps.kv_services), &zero, &service, BPF_ANY) ?:
	       bpf_map_update_elem(bpf_map__fd(skel->maps.kv_backends), &zero, &backend, BPF_ANY)
		       ?: bpf_map_update_elem(bpf_map__fd(skel->maps.kv_service_ids), &listen,
					      &zero, BPF_ANY);
}

int run_agent_call(struct kvsteer_bpf *skel)
{
	static struct kv_call call = {
		.op = KV_CALL_DECIDE,
		.slot = KV_NONE,
		.choice.backend = KV_NONE,
		.dispatch.query = {.total = 1000, .exclude = KV_NONE, .n_rungs = 1},
	};
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	int fd = bpf_map__fd(skel->maps.kv_call);
	__u32 zero = 0;

	call.dispatch.query.rungs[0] = (struct kv_rung){.hash = 42, .depth = 512};
	if (set_service(skel))
		return verdict("kv_agent_call", "maps");
	/* Twice: the second request finds what the first one taught. */
	for (int i = 0; i < 2; i++) {
		call.choice.backend = KV_NONE;
		if (bpf_map_update_elem(fd, &zero, &call, BPF_ANY) ||
		    bpf_prog_test_run_opts(bpf_program__fd(skel->progs.kv_agent_call), &opts) ||
		    opts.retval || bpf_map_lookup_elem(fd, &zero, &call))
			return verdict("kv_agent_call", "BPF_PROG_RUN");
		if (call.choice.backend != 0 || call.choice.matched != (i ? 512u : 0u))
			return verdict("kv_agent_call", "wrong choice");
	}
	return verdict("kv_agent_call", NULL);
}

/* Of the pseudo header and the segment (RFC 9293, section 3.1). */
static __u16 tcp_sum(const void *ip, const void *tcp, __u32 len)
{
	const __u8 *p = tcp, *addresses = (const __u8 *)ip + offsetof(struct iphdr, saddr);
	__u32 sum = IPPROTO_TCP + len;

	for (__u32 i = 0; i < 8; i++)
		sum += i & 1 ? addresses[i] : addresses[i] << 8;
	for (__u32 i = 0; i < len; i++)
		sum += i & 1 ? p[i] : p[i] << 8;
	sum = (sum & 0xffff) + (sum >> 16);
	return htons(~(sum + (sum >> 16)));
}

int run_packet(const struct bpf_program *prog)
{
	struct {
		struct ethhdr eth;
		struct iphdr ip;
		struct tcphdr tcp;
		char payload[16];
	} __attribute__((packed)) packet = {
		.eth.h_proto = htons(ETH_P_IP),
		.ip = {.version = 4,
		       .ihl = 5,
		       .ttl = 64,
		       .protocol = IPPROTO_TCP,
		       .tot_len = htons(sizeof(packet) - ETH_HLEN),
		       .saddr = htonl(0x0a000001),
		       .daddr = htonl(0x0a000002)},
		.tcp = {.source = htons(1234), .dest = htons(PORT), .doff = 5, .ack = 1},
		.payload = "GET / HTTP/1.1",
	};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = &packet, .data_size_in = sizeof(packet));
	const char *name = bpf_program__name(prog);

	packet.tcp.check =
		tcp_sum((__u8 *)&packet + ETH_HLEN, (__u8 *)&packet + ETH_HLEN + sizeof(packet.ip),
			sizeof(packet.tcp) + sizeof(packet.payload));
	if (bpf_prog_test_run_opts(bpf_program__fd(prog), &opts))
		return verdict(name, "BPF_PROG_TEST_RUN");
	/* No socket, no entry: the stack's. */
	return verdict(name, opts.retval == TC_ACT_OK ? NULL : "packet of nobody not left alone");
}

static __u64 counter(struct kvsteer_bpf *skel, __u32 key)
{
	__u64 values[64] = {}, sum = 0;

	if (libbpf_num_possible_cpus() > 64 ||
	    bpf_map_lookup_elem(bpf_map__fd(skel->maps.kv_counters), &key, values))
		return 0;
	for (int i = 0; i < 64; i++)
		sum += values[i];
	return sum;
}

static const char *attach(struct kvsteer_bpf *skel)
{
	const struct bpf_program *progs[] = {skel->progs.kv_ingress, skel->progs.kv_egress};
	const enum bpf_tc_attach_point points[] = {BPF_TC_INGRESS, BPF_TC_EGRESS};
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = if_nametoindex("lo"),
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);

	if (bpf_tc_hook_create(&hook))
		return "clsact qdisc on lo";
	for (int i = 0; i < 2; i++) {
		LIBBPF_OPTS(bpf_tc_opts, opts, .handle = KV_MAGIC, .priority = 1,
			    .prog_fd = bpf_program__fd(progs[i]), .flags = BPF_TC_F_REPLACE);

		hook.attach_point = points[i];
		if (bpf_tc_attach(&hook, &opts))
			return "tc filter on lo";
	}
	return NULL;
}

static const char *connection(void)
{
	static const char request[] = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
	const ssize_t len = sizeof(request) - 1;
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_port = htons(PORT),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	struct timeval limit = {.tv_sec = 20};
	char got[sizeof(request)] = "";
	int home;

	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 1) ||
	    connect(client, (struct sockaddr *)&at, sizeof(at)))
		return "connect";
	home = accept(listener, NULL, NULL);
	if (home < 0)
		return "accept";
	setsockopt(home, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (send(client, request, len, 0) != len || recv(home, got, len, MSG_WAITALL) != len ||
	    memcmp(got, request, len))
		return "request did not arrive unchanged";
	close(client);
	close(home);
	close(listener);
	return NULL;
}

static void detach(void)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = if_nametoindex("lo"),
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);

	bpf_tc_hook_destroy(&hook);
}

int run_connection(struct kvsteer_bpf *skel)
{
	const char *wrong = attach(skel) ?: connection();

	/* Read, decided, and left to the agent for want of an upstream. */
	if (!wrong && counter(skel, KV_CNT_agent_no_upstream) != 1)
		wrong = "request not seen by the express lane";
	detach();
	return verdict("connection", wrong);
}

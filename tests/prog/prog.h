/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that run BPF: a list of named tests, in a network namespace of their own. Without root
 * each test is skipped by name.
 */
#ifndef KVSTEER_TESTS_PROG_H
#define KVSTEER_TESTS_PROG_H

#include <arpa/inet.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/ipv6.h>

#include "../unit/check.h"

struct prog_test {
	const char *name;
	void (*run)(void);
};

/* What a test cannot go on without. */
#define NEED(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("Bail out! %s:%d: %s: %s\n", __FILE__, __LINE__, #cond,             \
			       strerror(errno));                                                   \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* The values of a map that can be mapped, written as the kernel reads them. */
static inline void *prog_memory(const struct bpf_map *map)
{
	size_t len = (size_t)bpf_map__max_entries(map) * bpf_map__value_size(map);
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	NEED(at != MAP_FAILED);
	return at;
}

static inline void prog_add_ipv6(int fd, const char *addr)
{
	/* struct in6_ifreq of linux/ipv6.h */
	struct in6_ifreq req = {.ifr6_prefixlen = 128, .ifr6_ifindex = if_nametoindex("lo")};

	NEED(inet_pton(AF_INET6, addr, &req.ifr6_addr) == 1);
	NEED(!ioctl(fd, SIOCSIFADDR, &req) || errno == EEXIST);
}

/* 127.0.0.0/8 is there by itself; IPv6 addresses are given to lo beside it. */
static inline void prog_enter_namespace(void)
{
	struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd;

	NEED(!unshare(CLONE_NEWNET));
	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	NEED(fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &req));
	prog_add_ipv6(fd, "fd00::1");
	prog_add_ipv6(fd, "fd00::2");
	prog_add_ipv6(fd, "fd00::3");
	prog_add_ipv6(fd, "fd00::ffff:0:1");
	close(fd);
}

/* false: not root, and all tests have been skipped. */
static inline bool prog_begin(const struct prog_test *tests, unsigned int n, const char *suffix)
{
	if (!geteuid())
		return true;
	for (unsigned int i = 0; i < n; i++)
		printf("ok %u - %s%s # SKIP not root\n", ++check_state.n, tests[i].name, suffix);
	return false;
}

static inline void prog_run(const struct prog_test *tests, unsigned int n, const char *suffix)
{
	char name[200];

	for (unsigned int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s%s", tests[i].name, suffix);
		check_begin(name);
		tests[i].run();
		check_end(); /* before the name is another's */
	}
}

#endif /* KVSTEER_TESTS_PROG_H */

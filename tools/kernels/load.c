// SPDX-License-Identifier: BSD-2-Clause
/*
 * Runs as the last command of a virtual machine's init: loads all programs as the agent does and
 * runs them once. One line per program: "prog NAME ok INSNS insns MS ms …" or "prog NAME FAIL …"
 * with the end of the verifier's log.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <kvsteer/prefixes.h>

#include "run.h"

#define LOG_STATS 4u   /* BPF_LOG_STATS: two lines, and no cost */
#define LOG_FAILURE 1u /* BPF_LOG_LEVEL1: the path that failed */
#define TAIL 6000      /* bytes of it to show */
#define LOG_SIZE (64 << 20)
#define MAX_PROGS 8

/* The agent's defaults. */
#define BACKENDS 64
#define PER_BACKEND 256

static char libbpf_last[4096];

/* Shown if all else is silent: libbpf's own errors (CO-RE, maps) never reach the verifier. */
static int keep_warning(enum libbpf_print_level level, const char *format, va_list args)
{
	size_t used = strlen(libbpf_last);

	if (level == LIBBPF_WARN && used < sizeof(libbpf_last) - 512)
		vsnprintf(libbpf_last + used, sizeof(libbpf_last) - used, format, args);
	return 0;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static struct kvsteer_bpf *open_as_agent(void)
{
	struct kvsteer_bpf *skel = kvsteer_bpf__open();

	if (!skel)
		return NULL;
	bpf_map__set_max_entries(skel->maps.kv_backends, BACKENDS);
	bpf_map__set_max_entries(skel->maps.kv_upstreams, BACKENDS * PER_BACKEND);
	bpf_map__set_max_entries(skel->maps.kv_dispatches, BACKENDS * PER_BACKEND);
	bpf_map__set_max_entries(skel->maps.kv_offers, BACKENDS * PER_BACKEND);
	bpf_map__set_max_entries(skel->maps.kv_upstream_ids, 2 * BACKENDS * PER_BACKEND);
	bpf_map__set_max_entries(skel->maps.kv_clients, 65536);
	bpf_map__set_max_entries(skel->maps.kv_prefixes, kv_prefix_sets(1048576));
	bpf_map__set_max_entries(skel->maps.kv_sessions, 131072);
	skel->rodata->kv_config.upstreams_per_backend = PER_BACKEND;
	skel->rodata->kv_config.prefix_sets = kv_prefix_sets(1048576);
	skel->rodata->kv_config.lo_ifindex = if_nametoindex("lo");
	return skel;
}

/* The number behind a word of the verifier's statistics; 0: there is none. */
static unsigned long number_after(const char *log, const char *word)
{
	const char *at = strstr(log, word);

	return at ? strtoul(at + strlen(word), NULL, 10) : 0;
}

static void print_stats(const char *name, const char *log)
{
	const char *stack = strstr(log, "stack depth ");

	printf("prog %s ok %lu insns %lu ms stack %.*s\n", name, number_after(log, "processed "),
	       number_after(log, "verification time ") / 1000,
	       stack ? (int)strcspn(stack + 12, "\n") : 0, stack ? stack + 12 : "");
}

static void print_failure(const char *name, int err, const char *log)
{
	size_t len = strlen(log);

	printf("prog %s FAIL: %s\n%s%s\n", name, strerror(-err),
	       len ? log + (len > TAIL ? len - TAIL : 0) : libbpf_last,
	       len > TAIL ? "(end of the log)" : "");
}

/* After a failed load of all: each program by itself, with the log of its failure. */
static void load_each(void)
{
	char *log = malloc(LOG_SIZE);
	struct kvsteer_bpf *skel;
	const char *name;
	int err = 0;

	for (int i = 0; log && i < MAX_PROGS; i++) {
		struct bpf_program *prog = NULL, *p = NULL;

		skel = open_as_agent();
		if (!skel)
			break;
		for (int n = 0; (p = bpf_object__next_program(skel->obj, p)); n++) {
			bpf_program__set_autoload(p, n == i);
			prog = n == i ? p : prog;
		}
		if (prog) {
			name = bpf_program__name(prog);
			*log = *libbpf_last = '\0';
			bpf_program__set_log_level(prog, LOG_FAILURE | LOG_STATS);
			bpf_program__set_log_buf(prog, log, LOG_SIZE);
			err = kvsteer_bpf__load(skel);
			if (err)
				print_failure(name, err, log);
			else
				print_stats(name, log);
		}
		kvsteer_bpf__destroy(skel);
	}
	free(log);
}

int main(void)
{
	static char logs[MAX_PROGS][4096];
	struct kvsteer_bpf *skel;
	struct bpf_program *p = NULL;
	double start = seconds();
	int err;

	libbpf_set_print(keep_warning);
	setvbuf(stdout, NULL, _IOLBF, 0);
	skel = open_as_agent();
	if (!skel) {
		printf("load FAIL: %s\n", libbpf_last);
		return 1;
	}
	for (int n = 0; (p = bpf_object__next_program(skel->obj, p)) && n < MAX_PROGS; n++) {
		bpf_program__set_log_level(p, LOG_STATS);
		bpf_program__set_log_buf(p, logs[n], sizeof(logs[n]));
	}
	err = kvsteer_bpf__load(skel);
	if (err) {
		kvsteer_bpf__destroy(skel);
		load_each();
		return 1;
	}
	for (int n = 0; (p = bpf_object__next_program(skel->obj, p)) && n < MAX_PROGS; n++)
		print_stats(bpf_program__name(p), logs[n]);
	printf("load ok %.1f s\n", seconds() - start);

	err = run_agent_call(skel);
	err |= run_packet(skel->progs.kv_ingress);
	err |= run_packet(skel->progs.kv_egress);
	err |= run_connection(skel);
	kvsteer_bpf__destroy(skel);
	return err ? 1 : 0;
}

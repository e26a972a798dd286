// SPDX-License-Identifier: BSD-2-Clause
/* kv-bench-events watch: follows one publisher and prints what it tells, for people and tests. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static void told(void *ctx, uint64_t key, uint32_t depth, uint32_t backend, uint32_t weight)
{
	(void)ctx;
	(void)backend;
	printf("told %016llx %u %u\n", (unsigned long long)key, depth, weight);
}

static void gone(void *ctx, uint64_t key, uint32_t backend)
{
	(void)ctx;
	(void)backend;
	printf("gone %016llx\n", (unsigned long long)key);
}

static void cleared(void *ctx, uint32_t backend, uint32_t rank, bool wholesale)
{
	(void)ctx;
	(void)backend;
	(void)rank;
	(void)wholesale;
	printf("cleared\n");
}

static void unsure(void *ctx, uint32_t backend, uint32_t rank, bool wholesale)
{
	(void)ctx;
	(void)backend;
	(void)rank;
	(void)wholesale;
	printf("unsure\n");
}

static void complete(void *ctx, uint32_t backend, uint32_t rank, bool is)
{
	(void)ctx;
	(void)backend;
	(void)rank;
	printf(is ? "complete\n" : "incomplete\n");
}

static void problem(void *ctx, const char *source, enum kv_problem what, const char *text)
{
	(void)ctx;
	(void)source;
	(void)what;
	printf("problem: %s\n", text);
}

static const struct kv_index_sink sink = {told, gone, cleared, unsure, complete};

static const char usage[] =
	"usage: kv-bench-events watch [-m MODEL] [-f FIRST] [-b POD] ENDPOINT [REPLAY]\n"
	"Prints told KEY DEPTH WEIGHT, gone KEY, cleared, unsure, complete. -b: ENDPOINT is "
	"bound,\n"
	"the engine connects and has that topic. Ends with SIGTERM or SIGINT, with sums on "
	"stderr.\n";

int watch(int argc, char **argv)
{
	struct kv_follow_limits limits = KV_FOLLOW_LIMITS;
	struct kv_follow_source s = {.name = "engine", .engine = {.backend = 1}};
	struct kv_follow_stats stats;
	struct kv_follow *f;
	sigset_t end;
	int o, sig;

	while ((o = getopt(argc, argv, "m:f:b:")) != -1) {
		if (o == 'm')
			s.engine.model = optarg;
		else if (o == 'f')
			s.first = strtoull(optarg, NULL, 10);
		else if (o == 'b')
			s.pod = optarg, s.bind = true;
		else
			return fputs(usage, stderr), 2;
	}
	if (optind == argc || argc - optind > 2)
		return fputs(usage, stderr), 2;
	s.endpoint = argv[optind];
	s.replay = argv[optind + 1]; /* or the NULL behind the last */
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	sigaddset(&end, SIGINT);
	sigprocmask(SIG_BLOCK, &end, NULL);
	limits.problem_ns = 0;
	f = kv_follow_new(&limits, &sink, problem, NULL);
	o = f ? kv_follow_add(f, &s) : -ENOMEM;
	while (!o && (o = kv_follow_stats(f, s.name, &stats)) == -EINPROGRESS)
		o = usleep(1000);
	if (o) {
		fprintf(stderr, "kv-bench-events: cannot follow %s: %s\n", s.endpoint,
			strerror(-o));
		kv_follow_free(f);
		return 1;
	}
	sigwait(&end, &sig);
	kv_follow_stats(f, s.name, &stats);
	fprintf(stderr, "messages=%llu gaps=%llu replays=%llu restarts=%llu bad=%llu held=%u\n",
		(unsigned long long)stats.messages, (unsigned long long)stats.sequence.gaps,
		(unsigned long long)stats.sequence.replays,
		(unsigned long long)stats.sequence.restarts,
		(unsigned long long)(stats.bad_frames + stats.bad_payloads), stats.held);
	kv_follow_free(f);
	return 0;
}

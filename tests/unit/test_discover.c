// SPDX-License-Identifier: BSD-2-Clause
/* Engines by DNS, against tests/tools/dns_server.py over loopback. Run in the tree's root. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "check.h"
#include "common/log.h"
#include "engines/dns_answer.h"
#include "engines/dns_source.h"
#include "loop_server.h"

static struct event_base *base;
static char zone_path[] = "/tmp/kvsteer-zone-XXXXXX";
static char servers[32];
static pid_t server;

static void zone(const char *text)
{
	char next[64];
	FILE *f;

	snprintf(next, sizeof(next), "%s.new", zone_path);
	f = fopen(next, "w");
	fputs(text, f);
	fclose(f);
	CHECK(!rename(next, zone_path));
}

static bool start_server(void)
{
	int out[2], port = 0, fd = mkstemp(zone_path);
	FILE *f;

	if (fd < 0 || pipe(out))
		return false;
	close(fd);
	zone("{}");
	server = fork();
	if (!server) {
		dup2(out[1], 1);
		close(out[0]);
		execlp("python3", "python3", "tests/tools/dns_server.py", zone_path, NULL);
		_exit(127);
	}
	close(out[1]);
	f = fdopen(out[0], "r");
	if (fscanf(f, "%d", &port) != 1)
		port = 0;
	fclose(f);
	snprintf(servers, sizeof(servers), "127.0.0.1:%d", port);
	return port;
}

static struct got {
	struct address_set set;
	unsigned int changes;
} got;

static void changed(void *arg, const struct address_set *set)
{
	(void)arg;
	got.set = *set;
	got.changes++;
}

/* "10.0.0.1:80 [::1]:80", in the set's order */
static const char *text(void)
{
	static char out[4096];
	char one[KV_ADDR_TEXT], *p = out;

	*p = 0;
	for (__u32 i = 0; i < got.set.n; i++)
		p += sprintf(p, "%s%s", i ? " " : "",
			     kv_addr_format(&got.set.at[i], one, sizeof(one)));
	return out;
}

static unsigned int rounds_ended;

static void ended(void *arg)
{
	(void)arg;
	rounds_ended++;
}

static const struct address_set *known;
static __u32 most_ms = 40, timeout_ms = 500;

static struct dns_source *source(const char *name, __u16 port)
{
	struct dns_options o = {
		.name = name,
		.port = port,
		.servers = servers,
		.timeout_ms = timeout_ms,
		.least_ms = 15,
		.most_ms = most_ms,
		.changed = changed,
		.ended = ended,
		.known = known,
	};
	struct dns_source *s = NULL;

	got = (struct got){};
	CHECK_EQ(dns_source_new(base, &o, &s), 0);
	return s;
}

static void rounds(struct dns_source *s, unsigned int n)
{
	__u64 end = kv_now_ns() + 30000000000ull, had = dns_source_stats(s)->rounds;

	/* the round that is under way may not have seen the change */
	while (dns_source_stats(s)->rounds < had + n + 1 && kv_now_ns() < end)
		loop_for(base, 5);
	CHECK(dns_source_stats(s)->rounds > had + n);
}

static void by_address(void)
{
	struct dns_source *s;

	zone("{\"llm.test\": {\"A\": [[\"10.0.0.2\", 0], [\"10.0.0.1\", 0], [\"10.0.0.1\", 0]],"
	     " \"AAAA\": [[\"fd00::1\", 0], [\"::\", 0]]}}");
	s = source("llm.test", 8000);
	CHECK(loop_until(base, &got.changes, 1, 2000));
	CHECK_STR(text(), "10.0.0.1:8000 10.0.0.2:8000 [fd00::1]:8000");
	/* the same again is no change */
	rounds(s, 2);
	CHECK_EQ(got.changes, 1);
	zone("{\"llm.test\": {\"CNAME\": [\"other.test\", 0]}, \"other.test\": "
	     "{\"A\": [[\"10.0.0.2\", 0], [\"10.0.0.3\", 0]]}}");
	CHECK(loop_until(base, &got.changes, 2, 2000));
	rounds(s, 1); /* a round asks twice: the change may have come in between */
	CHECK_STR(text(), "10.0.0.2:8000 10.0.0.3:8000");
	dns_source_free(s);
}

static void by_service(void)
{
	struct dns_source *s;

	zone("{\"_llm._tcp.test\": {\"SRV\": [[1, 5, 8001, \"a.test\", 0], [1, 5, 8002, "
	     "\"a.test\", 0],"
	     " [1, 1, 8001, \"B.test\", 0], [1, 1, 8001, \"b.test\", 0], [2, 0, 9, \"spare.test\", "
	     "0],"
	     " [1, 0, 0, \"b.test\", 0], [1, 0, 7, \".\", 0]]},"
	     " \"a.test\": {\"A\": [[\"10.0.0.1\", 0]]}, \"b.test\": {\"AAAA\": [[\"fd00::2\", "
	     "0]]},"
	     " \"spare.test\": {\"A\": [[\"10.0.0.9\", 0]]}}");
	s = source("_llm._tcp.test", 0);
	CHECK(loop_until(base, &got.changes, 1, 2000));
	CHECK_STR(text(), "10.0.0.1:8001 10.0.0.1:8002 [fd00::2]:8001");
	/* one target cannot be resolved: nothing is taken away, what is new is added */
	zone("{\"_llm._tcp.test\": {\"SRV\": [[1, 5, 8001, \"a.test\", 0], [1, 5, 8001, "
	     "\"c.test\", 0]]},"
	     " \"a.test\": {\"fault\": \"servfail\"}, \"c.test\": {\"A\": [[\"10.0.0.3\", 0]]}}");
	CHECK(loop_until(base, &got.changes, 2, 2000));
	CHECK_STR(text(), "10.0.0.1:8001 10.0.0.1:8002 10.0.0.3:8001 [fd00::2]:8001");
	dns_source_free(s);
}

/* What an agent before has found is kept, until an answer says otherwise. */
static void known_before(void)
{
	struct address_set before = {};
	struct kv_addr addr;
	struct dns_source *s;
	const struct dns_stats *stats;

	CHECK(!kv_addr_parse("10.0.0.1:8000", &addr));
	address_set_add(&before, &addr);
	CHECK(!kv_addr_parse("[fd00::1]:8000", &addr));
	address_set_add(&before, &addr);
	zone("{\"*\": {\"fault\": \"servfail\"}}");
	known = &before;
	s = source("_llm._tcp.test", 0);
	known = NULL;
	stats = dns_source_stats(s);
	rounds_ended = 0;
	rounds(s, 1);
	CHECK(rounds_ended >= 1);
	CHECK_EQ(got.changes, 0);
	CHECK(stats->failing >= 1 && !stats->answered_ns);
	CHECK(*stats->why);
	/* half an answer adds */
	zone("{\"_llm._tcp.test\": {\"SRV\": [[1, 5, 8000, \"a.test\", 0], [1, 5, 8000, "
	     "\"b.test\", 0]]}, \"a.test\": {\"fault\": \"servfail\"}, \"b.test\": {\"A\": "
	     "[[\"10.0.0.2\", 0]]}}");
	CHECK(loop_until(base, &got.changes, 1, 3000));
	CHECK_STR(text(), "10.0.0.1:8000 10.0.0.2:8000 [fd00::1]:8000");
	/* a whole one replaces */
	zone("{\"_llm._tcp.test\": {\"SRV\": [[1, 5, 8000, \"b.test\", 0]]}, \"b.test\": "
	     "{\"A\": [[\"10.0.0.1\", 0]]}}");
	for (int i = 0; i < 2000 && strcmp(text(), "10.0.0.1:8000"); i++)
		loop_for(base, 5);
	CHECK_STR(text(), "10.0.0.1:8000");
	CHECK(stats->answered_ns);
	CHECK_EQ(stats->failing, 0);
	dns_source_free(s);
	/* the same as before is no change */
	zone("{\"llm.test\": {\"A\": [[\"10.0.0.1\", 0]]}}");
	before = got.set;
	known = &before;
	s = source("llm.test", 8000);
	known = NULL;
	rounds(s, 1);
	CHECK_EQ(got.changes, 0);
	dns_source_free(s);
}

static void faults(void)
{
	static const char *const bad[] = {
		"{}",
		"{\"llm.test\": {}}",
		"{\"*\": {\"fault\": \"servfail\"}}",
		"{\"*\": {\"fault\": \"refused\"}}",
		"{\"llm.test\": {\"fault\": \"silent\"}}",
		"{\"llm.test\": {\"fault\": \"garbage\"}}",
		"{\"llm.test\": {\"fault\": \"short\", \"A\": [[\"10.0.0.9\", 0]]}}",
		"{\"llm.test\": {\"fault\": \"other-id\", \"A\": [[\"10.0.0.9\", 0]]}}",
		"{\"llm.test\": {\"fault\": \"loop\"}}",
	};
	struct dns_source *s;
	const struct dns_stats *stats;

	zone("{\"llm.test\": {\"A\": [[\"10.0.0.1\", 0]]}}");
	timeout_ms = 25;
	most_ms = 15;
	s = source("llm.test", 8000);
	timeout_ms = 500;
	most_ms = 40;
	stats = dns_source_stats(s);
	CHECK(loop_until(base, &got.changes, 1, 2000));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		__u64 had = stats->failures + stats->empty;

		zone(bad[i]);
		rounds(s, 1);
		if (got.changes != 1 || stats->failures + stats->empty == had)
			printf("# %s\n", bad[i]);
		CHECK_EQ(got.changes, 1);
		CHECK(stats->failures + stats->empty > had);
	}
	zone("{\"llm.test\": {\"A\": [[\"10.0.0.2\", 0]]}}");
	/* a busy machine fails a question now and then, and the old one is kept for that long */
	for (int i = 0; i < 2000 && strcmp(text(), "10.0.0.2:8000"); i++)
		loop_for(base, 5);
	CHECK_STR(text(), "10.0.0.2:8000");
	/* freed in the middle of a question */
	zone("{\"llm.test\": {\"fault\": \"silent\"}}");
	loop_for(base, 30);
	dns_source_free(s);
}

static void many(void)
{
	static char big[65536];
	struct dns_source *s;
	char *p = big + sprintf(big, "{\"llm.test\": {\"fault\": \"truncated\", \"A\": [");

	/* too many for a datagram, and some more than there is room for */
	for (int i = 0; i < ADDRESS_SET_MOST + 10; i++)
		p += sprintf(p, "%s[\"10.0.%d.%d\", 0]", i ? "," : "", i / 250, i % 250 + 1);
	strcpy(p, "]}}");
	zone(big);
	s = source("llm.test", 8000);
	CHECK(loop_until(base, &got.changes, 1, 3000));
	CHECK_EQ(got.set.n, ADDRESS_SET_MOST);
	dns_source_free(s);
}

static void time_to_live(void)
{
	__u64 began = kv_now_ns();
	struct dns_source *s;

	zone("{\"llm.test\": {\"A\": [[\"10.0.0.1\", 3600]]}}");
	most_ms = 200;
	s = source("llm.test", 8000);
	CHECK(loop_until(base, &got.changes, 1, 2000));
	/* an hour, of which most_ms is kept */
	while (dns_source_stats(s)->rounds < 2 && kv_now_ns() - began < 20 * 1000000000ull)
		loop_for(base, 5);
	CHECK_EQ(dns_source_stats(s)->rounds, 2);
	CHECK(kv_now_ns() - began >= 150000000); /* the loop keeps time by turns */
	dns_source_free(s);
}

static void nobody_answers(void)
{
	struct dns_options o = {
		.name = "llm.test",
		.port = 80,
		.servers = "127.0.0.1:1",
		.timeout_ms = 20,
		.least_ms = 20,
		.most_ms = 40,
		.changed = changed,
	};
	struct dns_source *s;
	char long_name[DNS_NAME_MAX + 2];

	got = (struct got){};
	CHECK_EQ(dns_source_new(base, &o, &s), 0);
	loop_for(base, 200);
	CHECK(dns_source_stats(s)->failures >= 1);
	CHECK_EQ(got.changes, 0);
	dns_source_free(s);
	o.servers = "no address";
	CHECK(dns_source_new(base, &o, &s) < 0);
	memset(long_name, 'a', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = 0;
	o.name = long_name;
	CHECK_EQ(dns_source_new(base, &o, &s), -ENAMETOOLONG);
	/* no name at all */
	o.name = "a..b";
	o.servers = servers;
	CHECK_EQ(dns_source_new(base, &o, &s), 0);
	loop_for(base, 60);
	CHECK(dns_source_stats(s)->failures >= 1);
	dns_source_free(s);
}

int main(void)
{
	kv_log_set_level(KV_LOG_ERROR);
	base = event_base_new();
	if (!start_server()) {
		printf("ok 1 - discovery # skip python3 is missing\n1..1\n");
		return 0;
	}
	TEST("A and AAAA, aliases")
	by_address();
	TEST("SRV")
	by_service();
	TEST("known before")
	known_before();
	TEST("failures and empty answers change nothing")
	faults();
	TEST("many, by TCP")
	many();
	TEST("time to live")
	time_to_live();
	TEST("nobody answers")
	nobody_answers();
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	unlink(zone_path);
	event_base_free(base);
	return check_done();
}

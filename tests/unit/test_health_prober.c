// SPDX-License-Identifier: BSD-2-Clause
/* Probes over loopback: what each answer means for an engine's health; its models. */
#include <signal.h>

#include "check.h"
#include "common/log.h"
#include "engines/prober.h"
#include "loop_server.h"

static struct event_base *base;

struct seen {
	unsigned int probes, lists, asked;
	enum health_probe last;
	char list[64];
};

static void probed(void *arg, enum health_probe probe)
{
	struct seen *s = arg;

	s->last = probe;
	s->probes++;
}

static void models(void *arg, const char *json, size_t len)
{
	struct seen *s = arg;

	s->asked++;
	if (!json)
		return;
	snprintf(s->list, sizeof(s->list), "%.*s", (int)len, json);
	s->lists++;
}

static struct prober *probe(struct loop_server *server, struct seen *seen, unsigned int models_ms)
{
	struct prober_options o = {"/health", 15, 250, models_ms, probed, models, seen};

	memset(seen, 0, sizeof(*seen));
	return prober_new(base, "test", &server->addr, &o);
}

#define STATUS(n) "HTTP/1.1 " #n " X\r\nContent-Length: 0\r\n\r\n"

static const struct {
	const char *answer;
	enum health_probe probe;
} cases[] = {
	{STATUS(200), PROBE_GOOD},     {STATUS(204), PROBE_GOOD},
	{STATUS(307), PROBE_GOOD},     {STATUS(404), PROBE_GOOD},
	{STATUS(401), PROBE_GOOD},     {STATUS(501), PROBE_GOOD},
	{STATUS(500), PROBE_BAD},      {STATUS(503), PROBE_BAD},
	{"SSH-2.0-x\r\n", PROBE_MUTE}, {"\x15\x03\x01\x01\x02\x02\x46", PROBE_MUTE},
	{"HTTP/1.1 2", PROBE_MUTE},
};

static void answers(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct loop_server s = {};
		struct seen seen;
		struct prober *p;

		loop_text(&s, cases[i].answer);
		loop_open(&s, base);
		p = probe(&s, &seen, 0);
		CHECK(loop_until(base, &seen.probes, 2, 1000));
		if (seen.last != cases[i].probe)
			printf("# %s\n", cases[i].answer);
		CHECK_EQ(seen.last, cases[i].probe);
		CHECK_STR(s.path, "/health");
		CHECK_EQ(seen.lists, 0);
		prober_free(p);
		loop_close(&s);
		loop_for(base, 2);
	}
	CHECK_EQ(probe_of(FETCH_LOCAL, 0), PROBE_UNKNOWN);
	CHECK_EQ(probe_of(FETCH_UNREACHABLE, 0), PROBE_BAD);
}

static void hung_dead_back(void)
{
	struct loop_server s = {.silent = true}, other = {};
	struct seen seen, well;
	struct prober *p, *q;
	unsigned int had;

	loop_text(&s, STATUS(200));
	loop_text(&other, STATUS(200));
	loop_open(&s, base);
	loop_open(&other, base);
	p = probe(&s, &seen, 0);
	q = probe(&other, &well, 0);
	CHECK(loop_until(base, &seen.probes, 2, 1000));
	CHECK_EQ(seen.last, PROBE_MUTE); /* it has never been well */
	CHECK(well.probes > seen.probes);
	CHECK_EQ(well.last, PROBE_GOOD);
	loop_close(&s);
	had = seen.probes;
	CHECK(loop_until(base, &seen.probes, had + 2, 1000));
	CHECK_EQ(seen.last, PROBE_REFUSED);
	s.silent = false;
	loop_open(&s, base);
	had = seen.probes;
	CHECK(loop_until(base, &seen.probes, had + 2, 1000));
	CHECK_EQ(seen.last, PROBE_GOOD);
	s.silent = true;
	had = seen.probes;
	CHECK(loop_until(base, &seen.probes, had + 2, 1000));
	CHECK_EQ(seen.last, PROBE_BAD);
	prober_free(p);
	prober_free(q);
	loop_close(&s);
	loop_close(&other);
}

static void lists(void)
{
	static const char answer[] = "HTTP/1.0 200 OK\r\n\r\n{\"data\":[]}";
	struct loop_server s = {.repeat = 0};
	struct seen seen;
	struct prober *p;
	unsigned int had;

	loop_text(&s, answer);
	loop_open(&s, base);
	p = probe(&s, &seen, 20);
	CHECK(loop_until(base, &seen.lists, 2, 1000));
	CHECK_STR(seen.list, "{\"data\":[]}");
	/* not asked again before its time; and then at once */
	prober_now(p, true);
	/* an error is no list, nor is one without end */
	loop_text(&s, STATUS(404));
	loop_for(base, 30);
	had = seen.lists;
	loop_for(base, 60);
	CHECK_EQ(seen.lists, had);
	CHECK(seen.asked > had); /* and is said to be none */
	loop_text(&s, answer);
	s.repeat = 200000;
	had = s.requests;
	CHECK(loop_until(base, &s.requests, had + 3, 2000));
	CHECK_EQ(strlen(seen.list), strlen("{\"data\":[]}"));
	prober_free(p);
	loop_close(&s);
	loop_for(base, 20);
}

/* Asked once in ten minutes, and soon when somebody wants to know: at most once a second. It begins
 * with the first test, so that the second is over when its own turn comes. */
static struct {
	struct loop_server server;
	struct seen seen;
	struct prober *prober;
} rare;

static void rare_begin(void)
{
	struct prober_options o = {"/health", 600000, 20000, 600000, probed, models, &rare.seen};

	loop_text(&rare.server, STATUS(200));
	loop_open(&rare.server, base);
	rare.prober = prober_new(base, "rare", &rare.server.addr, &o);
}

static void soon(bool of_models, const unsigned int *count)
{
	__u64 limit = kv_now_ns() + 30000000000ull, asked_ns = 0;

	CHECK(loop_until(base, count, 1, 2000));
	CHECK_EQ(*count, 1);
	while (*count < 2 && kv_now_ns() < limit) {
		asked_ns = kv_now_ns();
		prober_now(rare.prober, of_models);
		loop_for(base, 5);
	}
	CHECK_EQ(*count, 2);
	prober_now(rare.prober, of_models);
	loop_for(base, 30);
	CHECK(*count == 2 || kv_now_ns() - asked_ns > 900000000);
}

/* An answer under way is of the process before. */
static void anew(void)
{
	struct loop_server s = {.silent = true};
	struct seen seen;
	struct prober *p;

	loop_text(&s, "HTTP/1.0 200 OK\r\n\r\n{\"data\":[]}");
	loop_open(&s, base);
	p = probe(&s, &seen, 600000);
	loop_for(base, 300); /* asked, and waits */
	s.silent = false;
	CHECK_EQ(seen.asked, 0);
	prober_models_anew(p);
	CHECK(loop_until(base, &seen.lists, 1, 2000));
	CHECK_EQ(seen.asked, 1);
	prober_free(p);
	loop_close(&s);
	loop_for(base, 20);
}

static void asked_soon(void)
{
	soon(true, &rare.seen.asked);
	soon(false, &rare.seen.probes);
	CHECK_EQ(rare.seen.asked, 2);
	prober_free(rare.prober);
	loop_close(&rare.server);
	loop_for(base, 5);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	kv_log_set_level(KV_LOG_ERROR);
	base = event_base_new();
	rare_begin();
	TEST("answers")
	answers();
	TEST("hung, dead, back")
	hung_dead_back();
	TEST("models")
	lists();
	TEST("asked anew")
	anew();
	TEST("soon, but not too often")
	asked_soon();
	event_base_free(base);
	return check_done();
}

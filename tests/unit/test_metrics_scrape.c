// SPDX-License-Identifier: BSD-2-Clause
/* Scraping engines over loopback: reports, their age, one request at a time, each by itself. */
#include <errno.h>
#include <signal.h>

#include "check.h"
#include "common/log.h"
#include "engines/complaint.h"
#include "engines/scrape.h"
#include "loop_server.h"

#define PAGE(body) "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n" body
#define GOOD PAGE("vllm:num_requests_running 3\nvllm:num_requests_waiting 1\n")
#define TRTLLM PAGE("trtllm_num_requests_running 5\n")

static struct event_base *base;

struct counted {
	struct engine_report last;
	unsigned int reports;
};

static void reported(void *arg, const struct engine_report *r)
{
	struct counted *c = arg;

	c->last = *r;
	c->reports++;
}

static unsigned int timeout_ms = 250;

static struct scraper *scrape(struct loop_server *s, struct counted *c)
{
	struct scrape_options o = {20, timeout_ms, 400, reported, c};
	struct scraper *scraper = scraper_new(base, "test", &s->addr, &o);

	memset(c, 0, sizeof(*c));
	CHECK(scraper);
	CHECK_EQ(scraper_age(scraper, kv_now_ns()), REPORT_NONE);
	return scraper;
}

static void fresh_and_stale(void)
{
	struct loop_server s = {};
	struct counted c;
	struct scraper *scraper;
	unsigned int answered;

	loop_text(&s, GOOD);
	loop_open(&s, base);
	scraper = scrape(&s, &c);
	CHECK(loop_until(base, &c.reports, 5, 1000));
	CHECK_EQ(c.last.load.running, 3);
	CHECK_EQ(c.last.load.waiting, 1);
	CHECK_EQ(c.last.result, FETCH_ANSWERED);
	CHECK_EQ(c.last.failures, 0);
	CHECK_EQ(scraper_age(scraper, kv_now_ns()), REPORT_FRESH);
	CHECK_STR(s.path, "/metrics");
	CHECK(scraper_report(scraper)->took_ns < 250000000);

	/* it hangs: what it said grows old, and does not become 0 */
	s.silent = true;
	answered = c.reports;
	CHECK(loop_until(base, &c.reports, answered + 2, 1500));
	CHECK_EQ(c.last.result, FETCH_TIMEOUT);
	CHECK(c.last.timeouts >= 2);
	CHECK_EQ(c.last.load.running, 3);
	CHECK_EQ(scraper_age(scraper, kv_now_ns()), REPORT_STALE);
	CHECK_EQ(s.open_most, 1);

	s.silent = false;
	answered = c.reports;
	CHECK(loop_until(base, &c.reports, answered + 2, 1000));
	CHECK_EQ(scraper_age(scraper, kv_now_ns()), REPORT_FRESH);
	scraper_free(scraper);
	loop_close(&s);
}

static void gone_and_back(void)
{
	struct loop_server s = {};
	struct counted c;
	struct scraper *scraper;
	unsigned int had;

	loop_text(&s, GOOD);
	loop_open(&s, base);
	loop_close(&s);
	scraper = scrape(&s, &c);
	CHECK(loop_until(base, &c.reports, 3, 1000));
	CHECK_EQ(c.last.result, FETCH_REFUSED);
	CHECK_EQ(c.last.failures, c.reports);
	CHECK_EQ(scraper_age(scraper, kv_now_ns()), REPORT_NONE);
	loop_open(&s, base);
	had = c.reports;
	CHECK(loop_until(base, &c.reports, had + 2, 1000));
	CHECK_EQ(c.last.load.running, 3);
	scraper_free(scraper);
	loop_close(&s);
}

/* Those that hang, drip, break off, or send what nobody wants do not delay the one that is well. */
static void each_by_itself(void)
{
	static const char *const bad[] = {
		GOOD,
		GOOD,
		GOOD,
		PAGE("{\"loads\": []}\n"),
		"\x15\x03\x03\x01\x02\x02\x46",
		"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
	};
	enum { BAD = sizeof(bad) / sizeof(*bad) };
	static const int results[BAD] = {FETCH_TIMEOUT,	 FETCH_TIMEOUT, FETCH_BROKEN,
					 FETCH_ANSWERED, FETCH_TLS,	FETCH_ANSWERED};
	struct loop_server s[BAD + 1] = {
		[0] = {.silent = true}, [1] = {.drip = 5}, [2] = {.reset = true}};
	struct scraper *scraper[BAD + 1];
	struct counted c[BAD + 1];

	for (int i = 0; i <= BAD; i++) {
		loop_text(&s[i], i < BAD ? bad[i] : GOOD);
		loop_open(&s[i], base);
		scraper[i] = scrape(&s[i], &c[i]);
	}
	CHECK(loop_until(base, &c[BAD].reports, 20, 1500));
	for (int i = 0; i < BAD; i++)
		CHECK(loop_until(base, &c[i].reports, 2, 1500));
	for (int i = 0; i <= BAD; i++) {
		CHECK(c[i].reports >= 2);
		CHECK_EQ(c[i].last.failures, i < BAD ? c[i].last.scrapes : 0);
		CHECK_EQ(c[i].last.result, i < BAD ? results[i] : FETCH_ANSWERED);
		CHECK_EQ(s[i].open_most, 1);
		CHECK_EQ(scraper_age(scraper[i], kv_now_ns()),
			 i < BAD ? REPORT_NONE : REPORT_FRESH);
	}
	CHECK_EQ(c[3].last.error, -ENODATA);
	CHECK_EQ(c[5].last.status, 404);
	for (int i = 0; i <= BAD; i++) {
		scraper_free(scraper[i]);
		loop_close(&s[i]);
	}
	loop_for(base, 5);
}

static void other_path(void)
{
	struct loop_server s = {};
	struct counted c;
	struct scraper *scraper;
	unsigned int had;

	loop_text(&s, PAGE("[]"));
	loop_open(&s, base);
	scraper = scrape(&s, &c);
	CHECK(loop_until(base, &c.reports, 1, 1000));
	CHECK_STR(s.path, "/metrics");
	loop_text(&s, TRTLLM);
	CHECK(loop_until(base, &c.reports, 2, 1000));
	CHECK_STR(s.path, "/prometheus/metrics");
	CHECK_EQ(c.last.load.kind, ENGINE_TRTLLM);
	had = c.reports;
	CHECK(loop_until(base, &c.reports, had + 2, 1000));
	CHECK_STR(s.path, "/prometheus/metrics");
	scraper_free(scraper);
	loop_close(&s);
}

static void huge(void)
{
	static char page[1 << 16];
	struct loop_server s = {.repeat = 160};
	struct counted c;
	struct scraper *scraper;
	int n = sprintf(page, GOOD);

	while (n + 64 < (int)sizeof(page))
		n += sprintf(page + n, "vllm:some_bucket{le=\"%d\"} 1\n", n);
	loop_text(&s, page);
	loop_open(&s, base);
	timeout_ms = 30000;
	scraper = scrape(&s, &c);
	timeout_ms = 250;
	CHECK(loop_until(base, &c.reports, 1, 3000));
	CHECK_EQ(c.last.result, FETCH_TOO_LARGE);
	CHECK_EQ(c.last.too_large, 1);
	CHECK_EQ(c.last.at_ns, 0);
	scraper_free(scraper);
	loop_close(&s);
	loop_for(base, 10);
}

static void complaints(void)
{
	struct complaint c = {};
	__u64 t = 1000000000ull, lines = 0;

	CHECK(!complaint_over(&c, t));
	CHECK(complaint_due(&c, 3, t));
	CHECK(!complaint_due(&c, 3, t + COMPLAINT_PAUSE_NS));
	CHECK(!complaint_due(&c, 4, t + COMPLAINT_PAUSE_NS - 1));
	CHECK(complaint_due(&c, 4, t + COMPLAINT_PAUSE_NS));
	CHECK(complaint_over(&c, t + 2 * COMPLAINT_PAUSE_NS));
	CHECK(!complaint_over(&c, t + 2 * COMPLAINT_PAUSE_NS));
	/* comes and goes, of two kinds, each second for an hour */
	for (int i = 0; i < 3600; i++) {
		t += 1000000000ull;
		lines += complaint_due(&c, 3 + (i & 1), t);
		lines += complaint_over(&c, t);
	}
	CHECK(lines <= 2 * 120);
	/* the same for an hour */
	lines = 0;
	for (int i = 0; i < 3600; i++)
		lines += complaint_due(&c, 9, t += 1000000000ull);
	CHECK(lines >= 6 && lines <= 7);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	kv_log_set_level(KV_LOG_ERROR);
	base = event_base_new();
	TEST("fresh, stale while it hangs, fresh again")
	fresh_and_stale();
	TEST("refused, and back")
	gone_and_back();
	TEST("each engine by itself")
	each_by_itself();
	TEST("figures at the other path")
	other_path();
	TEST("a page of 10 MB")
	huge();
	TEST("complaints are few")
	complaints();
	event_base_free(base);
	return check_done();
}

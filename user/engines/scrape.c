// SPDX-License-Identifier: BSD-2-Clause
#include "engines/scrape.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/timer.h"
#include "engines/complaint.h"
#include "engines/time.h"

/* trtllm-serve has JSON at the first. */
static const char *const paths[] = {"/metrics", "/prometheus/metrics"};
#define NOW_NS 200000000ull /* scraper_now: at most so often */
#define N_PATHS (sizeof(paths) / sizeof(*paths))

/* complaint.about: a fetch_result, or one of these. */
enum { ABOUT_STATUS = FETCH_RESULTS, ABOUT_NOTHING_KNOWN };

struct scraper {
	struct event_base *base;
	char name[KV_NAME_LEN];
	struct kv_addr to;
	struct scrape_options options;
	struct kv_timer timer;
	struct fetch *fetch;
	uint64_t began_ns;
	unsigned int path;
	unsigned int missed; /* answers without figures, one after the other */
	struct complaint complaint;
	struct engine_report report;
	struct metrics_reader reader;
};

static void start(struct scraper *s);

static void on_timer(void *arg)
{
	start(arg);
}

static void wait_for_next(struct scraper *s, uint64_t now_ns)
{
	kv_timer_set(&s->timer, until_next(s->began_ns, s->options.interval_ms, now_ns), 0);
}

static bool data(void *arg, const char *piece, size_t n)
{
	struct scraper *s = arg;

	return metrics_feed(&s->reader, piece, n);
}

static void complain(struct scraper *s, uint64_t now_ns, int about)
{
	const struct engine_report *r = &s->report;
	char why[160];

	if (!complaint_due(&s->complaint, about, now_ns))
		return;
	if (about == ABOUT_STATUS)
		snprintf(why, sizeof(why), "status %d%s", r->status,
			 r->status == 404 ? " (SGLang: --enable-metrics is needed)" : "");
	else if (about == ABOUT_NOTHING_KNOWN)
		snprintf(why, sizeof(why),
			 "no figure of a known engine in it (vLLM: without --disable-log-stats; "
			 "TensorRT-LLM: with return_perf_metrics)");
	else if (about == FETCH_TOO_LARGE)
		snprintf(why, sizeof(why), "longer than %u MiB", METRICS_PAGE_MAX >> 20);
	else
		snprintf(why, sizeof(why), "%s", fetch_result_text(about));
	kv_warn("backend %s: metrics of http://%s%s: %s; its load is not known", s->name,
		kv_addr_format(&s->to, (char[KV_ADDR_TEXT]){0}, KV_ADDR_TEXT), paths[s->path], why);
}

static void failed(struct scraper *s, uint64_t now_ns)
{
	struct engine_report *r = &s->report;
	int about = r->result;

	r->failures++;
	r->timeouts += r->result == FETCH_TIMEOUT;
	r->too_large += r->result == FETCH_TOO_LARGE;
	/* who refuses is down, and that is told by those who connect to it */
	if (r->result == FETCH_REFUSED)
		return;
	if (r->result != FETCH_ANSWERED) {
		complain(s, now_ns, about);
		return;
	}
	about = r->status == 200 ? ABOUT_NOTHING_KNOWN : ABOUT_STATUS;
	/* perhaps what we look for is at the other path */
	if (++s->missed > N_PATHS && !s->path)
		complain(s, now_ns, about);
	s->path = (s->path + 1) % N_PATHS;
}

static void done(void *arg, enum fetch_result result, int status)
{
	struct scraper *s = arg;
	struct engine_report *r = &s->report;
	struct engine_load load;
	uint64_t now_ns = kv_now_ns();

	s->fetch = NULL;
	r->scrapes++;
	r->result = result;
	r->status = status;
	r->error = metrics_end(&s->reader, &load);
	if (r->error == -EFBIG)
		r->result = FETCH_TOO_LARGE;
	r->malformed += s->reader.prom.malformed;
	if (result == FETCH_ANSWERED && status == 200 && !r->error) {
		r->load = load;
		r->at_ns = now_ns;
		r->took_ns = now_ns - s->began_ns;
		s->missed = 0;
		if (complaint_over(&s->complaint, now_ns))
			kv_info("backend %s: its metrics are read again", s->name);
	} else {
		failed(s, now_ns);
	}
	wait_for_next(s, now_ns);
	s->options.reported(s->options.arg, r);
}

static void start(struct scraper *s)
{
	struct fetch_request request = {
		.path = paths[s->path],
		.timeout_ms = s->options.timeout_ms,
		.limit = METRICS_PAGE_MAX,
		.data = data,
		.done = done,
		.arg = s,
	};

	if (s->fetch)
		return;
	s->began_ns = kv_now_ns();
	metrics_begin(&s->reader);
	s->fetch = fetch_start(s->base, &s->to, &request);
	if (!s->fetch)
		wait_for_next(s, s->began_ns);
}

struct scraper *scraper_new(struct event_base *base, const char *name, const struct kv_addr *to,
			    const struct scrape_options *options)
{
	struct scraper *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->base = base;
	snprintf(s->name, sizeof(s->name), "%s", name);
	s->to = *to;
	s->options = *options;
	if (kv_timer_open(&s->timer, base, on_timer, s)) {
		free(s);
		return NULL;
	}
	/* all engines of a file begin at once: not their scrapes */
	kv_timer_set(&s->timer, random_below(options->interval_ms / 4 + 1), 0);
	return s;
}

void scraper_now(struct scraper *s)
{
	if (!s->fetch && kv_now_ns() - s->began_ns >= NOW_NS)
		kv_timer_set(&s->timer, 0, 0);
}

void scraper_free(struct scraper *s)
{
	if (!s)
		return;
	fetch_cancel(s->fetch);
	kv_timer_close(&s->timer);
	free(s);
}

const struct engine_report *scraper_report(const struct scraper *s)
{
	return &s->report;
}

enum report_age scraper_age(const struct scraper *s, uint64_t now_ns)
{
	return report_age(&s->report, now_ns, s->options.stale_ms * MS_NS);
}

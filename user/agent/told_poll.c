// SPDX-License-Identifier: BSD-2-Clause
/*
 * Engines that have to be asked for their events (TensorRT-LLM's trtllm-serve): an answer empties
 * their queue, so each event comes once, and to one who asks. An engine that has none waits for
 * some, up to 2 s, before it answers.
 */
#include "agent/told_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/timer.h"
#include "engines/complaint.h"
#include "events/cut.h"

#define ANSWER_MAX (64u << 20)
#define EVENT_MAX (8u << 20) /* a prompt of 130,000 tokens */
#define TIMEOUT_MS 10000
#define PAUSE_MS 100 /* from an answer to the next question */
#define RETRY_MS 1000

/* complaint.about: a fetch_result, or one of these. */
enum { ABOUT_STATUS = FETCH_RESULTS, ABOUT_NO_EVENTS, ABOUT_TOO_LONG };

struct told_poll {
	struct event_base *base;
	struct kv_follow *follow;
	const char *name, *path; /* the backend's */
	struct kv_addr to;
	char endpoint[TOLD_ENDPOINT_LEN];
	struct kv_timer timer;
	struct fetch *fetch;
	struct kv_cut cut;
	int cut_err;
	bool answers; /* as the follower has been told */
	struct complaint complaint;
};

static void on_event(void *ctx, char *text, size_t len)
{
	struct told_poll *p = ctx;

	/* Without memory it is a gap. */
	kv_follow_polled(p->follow, p->endpoint, text, len);
}

static bool on_data(void *arg, const char *data, size_t n)
{
	struct told_poll *p = arg;

	if (!p->cut_err)
		p->cut_err = kv_cut_feed(&p->cut, data, n);
	return true;
}

static void complain(struct told_poll *p, int about, int status)
{
	char why[160];

	if (!complaint_due(&p->complaint, about, kv_now_ns()))
		return;
	if (about == ABOUT_STATUS)
		snprintf(why, sizeof(why), "status %d%s", status,
			 status == 404 || status == 405 ? ": is it trtllm-serve, is the path right?"
							: "");
	else if (about == ABOUT_NO_EVENTS)
		snprintf(why, sizeof(why), "the answer is no list of events");
	else if (about == ABOUT_TOO_LONG)
		snprintf(why, sizeof(why), "one of more than %u MiB: left out", EVENT_MAX >> 20);
	else if (about == FETCH_TOO_LARGE)
		snprintf(why, sizeof(why), "more than %u MiB at once: the rest is lost",
			 ANSWER_MAX >> 20);
	else
		snprintf(why, sizeof(why), "%s", fetch_result_text(about));
	kv_warn("events of %s: %s: %s", p->name, p->endpoint, why);
}

static void on_done(void *arg, enum fetch_result result, int status)
{
	struct told_poll *p = arg;
	int about = 0;
	bool ok;

	p->fetch = NULL;
	if (result != FETCH_ANSWERED)
		about = result;
	else if (status != 200)
		about = ABOUT_STATUS;
	else if (p->cut_err || !kv_cut_whole(&p->cut))
		about = ABOUT_NO_EVENTS;
	ok = !about;
	if (ok && p->cut.left_out)
		about = ABOUT_TOO_LONG;
	kv_cut_exit(&p->cut);
	if (about)
		complain(p, about, status);
	else if (complaint_over(&p->complaint, kv_now_ns()))
		kv_info("events of %s: it answers again", p->name);
	if (ok != p->answers && !kv_follow_answers(p->follow, p->endpoint, ok))
		p->answers = ok;
	kv_timer_set(&p->timer, ok ? PAUSE_MS : RETRY_MS, 0);
}

static void on_timer(void *arg)
{
	struct told_poll *p = arg;
	const struct fetch_request request = {
		.path = p->path,
		.timeout_ms = TIMEOUT_MS,
		.limit = ANSWER_MAX,
		.body = "", /* a POST */
		.data = on_data,
		.done = on_done,
		.arg = p,
	};

	/* What it has keeps in its queue. */
	if (!kv_follow_behind(p->follow, p->endpoint)) {
		kv_cut_init(&p->cut, EVENT_MAX, on_event, p);
		p->cut_err = 0;
		p->fetch = fetch_start(p->base, &p->to, &request);
	}
	if (!p->fetch)
		kv_timer_set(&p->timer, PAUSE_MS, 0);
}

int told_poll_start(struct told *t, struct told_backend *b, const char *endpoint)
{
	struct told_poll *p = calloc(1, sizeof(*p));
	int err = p ? kv_timer_open(&p->timer, t->agent->base, on_timer, p) : -ENOMEM;

	if (err) {
		free(p);
		return err;
	}
	p->base = t->agent->base;
	p->follow = t->follow;
	p->name = b->name;
	p->path = b->way.events.bind;
	p->to = b->way.address;
	snprintf(p->endpoint, sizeof(p->endpoint), "%s", endpoint);
	kv_timer_set(&p->timer, 0, 0);
	b->poll = p;
	return 0;
}

void told_poll_stop(struct told_backend *b)
{
	struct told_poll *p = b->poll;

	if (!p)
		return;
	if (p->fetch)
		kv_cut_exit(&p->cut);
	fetch_cancel(p->fetch);
	kv_timer_close(&p->timer);
	free(p);
	b->poll = NULL;
}

// SPDX-License-Identifier: BSD-2-Clause
#include "engines/prober.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/timer.h"
#include "engines/complaint.h"
#include "engines/fetch_text.h"
#include "engines/models.h"
#include "engines/time.h"

#define NOW_NS 1000000000ull /* prober_now: at most so often */
#define ANEW_MS 100	     /* prober_models_anew: the same */
#define MODELS_TIMEOUT 4     /* times the health check's: a longer answer, less urgent */

/* complaint.about: a fetch_result, or a status beyond them */
#define ABOUT_STATUS(status) (FETCH_RESULTS + (status))

/* /health and /v1/models apart: one that hangs does not delay the other. */
struct asking {
	struct prober *prober;
	struct kv_timer timer;
	struct fetch *fetch;
	uint64_t began_ns;
	uint32_t interval_ms;
	void (*start)(struct asking *a);
};

struct prober {
	struct event_base *base;
	char name[KV_NAME_LEN];
	struct kv_addr to;
	struct prober_options options;
	struct asking health, models;
	struct complaint complaint;
	bool well;		/* it has answered well since it listens */
	struct fetch_text list; /* of the answer at hand */
};

enum health_probe probe_of(enum fetch_result result, int status)
{
	switch (result) {
	case FETCH_ANSWERED:
		/* 4xx, 501: no such path, or not for us. Something answers, and requests will tell
		 * the rest. */
		return status < 500 || status == 501 ? PROBE_GOOD : PROBE_BAD;
	case FETCH_REFUSED:
		return PROBE_REFUSED;
	case FETCH_LOCAL:
		return PROBE_UNKNOWN;
	default:
		return PROBE_BAD;
	}
}

static void again(struct asking *a, uint64_t now_ns)
{
	kv_timer_set(&a->timer, until_next(a->began_ns, a->interval_ms, now_ns), 0);
}

static void on_timer(void *arg)
{
	struct asking *a = arg;

	if (!a->fetch) {
		a->began_ns = kv_now_ns();
		a->start(a);
	}
	if (!a->fetch)
		again(a, a->began_ns);
}

static void say(struct prober *p, enum fetch_result result, int status, uint64_t now_ns)
{
	bool answered = result == FETCH_ANSWERED;
	char url[KV_ADDR_TEXT + 128], text[KV_ADDR_TEXT];

	snprintf(url, sizeof(url), "http://%s%s", kv_addr_format(&p->to, text, sizeof(text)),
		 p->options.health_path);
	if (answered && status < 400) {
		if (complaint_over(&p->complaint, now_ns))
			kv_info("backend %s: %s answers well again", p->name, url);
	} else if (result != FETCH_REFUSED && /* told as a change of its state */
		   complaint_due(&p->complaint, answered ? ABOUT_STATUS(status) : (int)result,
				 now_ns)) {
		if (!answered)
			kv_warn("backend %s: %s: %s%s", p->name, url, fetch_result_text(result),
				p->well || result == FETCH_LOCAL
					? ""
					: " Until it answers, its health is judged by its requests "
					  "alone.");
		else if (probe_of(result, status) == PROBE_BAD)
			kv_warn("backend %s: %s: status %d: the engine says that it is not well",
				p->name, url, status);
		else
			kv_warn("backend %s: %s: status %d: its health is judged by its requests "
				"alone; is the path right?",
				p->name, url, status);
	}
}

static void health_done(void *arg, enum fetch_result result, int status)
{
	struct prober *p = arg;
	enum health_probe probe = probe_of(result, status);
	uint64_t now_ns = kv_now_ns();

	p->health.fetch = NULL;
	if (probe == PROBE_GOOD)
		p->well = true;
	else if (probe == PROBE_REFUSED)
		p->well = false;
	else if (probe == PROBE_BAD && result != FETCH_ANSWERED && !p->well)
		probe = PROBE_MUTE;
	say(p, result, status, now_ns);
	again(&p->health, now_ns);
	p->options.probed(p->options.arg, probe);
}

static void health_start(struct asking *a)
{
	struct prober *p = a->prober;
	struct fetch_request request = {
		.path = p->options.health_path,
		.timeout_ms = p->options.timeout_ms,
		.limit = 65536,
		.done = health_done,
		.arg = p,
	};

	a->fetch = fetch_start(p->base, &p->to, &request);
}

static bool models_data(void *arg, const char *data, size_t n)
{
	struct prober *p = arg;

	return n <= MODELS_LIST_MAX - p->list.len && fetch_text_add(&p->list, data, n);
}

static void models_done(void *arg, enum fetch_result result, int status)
{
	struct prober *p = arg;
	struct fetch_text list = p->list;

	p->models.fetch = NULL;
	p->list = (struct fetch_text){};
	again(&p->models, kv_now_ns());
	if (result == FETCH_ANSWERED && status == 200 && list.p)
		p->options.models(p->options.arg, list.p, list.len);
	else
		p->options.models(p->options.arg, NULL, 0);
	fetch_text_free(&list);
}

static void models_start(struct asking *a)
{
	struct prober *p = a->prober;
	struct fetch_request request = {
		.path = "/v1/models",
		.timeout_ms = p->options.timeout_ms * MODELS_TIMEOUT,
		.limit = MODELS_LIST_MAX,
		.data = models_data,
		.done = models_done,
		.arg = p,
	};

	a->fetch = fetch_start(p->base, &p->to, &request);
}

static int begin(struct prober *p, struct asking *a, uint32_t interval_ms,
		 void (*start)(struct asking *a))
{
	int err;

	*a = (struct asking){.prober = p, .interval_ms = interval_ms, .start = start};
	err = interval_ms ? kv_timer_open(&a->timer, p->base, on_timer, a) : 0;
	if (!err && interval_ms)
		kv_timer_set(&a->timer, random_below(interval_ms / 8 + 1) % 250, 0);
	return err;
}

struct prober *prober_new(struct event_base *base, const char *name, const struct kv_addr *to,
			  const struct prober_options *options)
{
	struct prober *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->base = base;
	snprintf(p->name, sizeof(p->name), "%s", name);
	p->to = *to;
	p->options = *options;
	if (begin(p, &p->health, options->interval_ms, health_start) ||
	    begin(p, &p->models, options->models_ms, models_start)) {
		prober_free(p);
		return NULL;
	}
	return p;
}

void prober_free(struct prober *p)
{
	if (!p)
		return;
	fetch_cancel(p->health.fetch);
	fetch_cancel(p->models.fetch);
	kv_timer_close(&p->health.timer);
	kv_timer_close(&p->models.timer);
	fetch_text_free(&p->list);
	free(p);
}

void prober_now(struct prober *p, bool models)
{
	struct asking *a = models ? &p->models : &p->health;

	if (!a->fetch && a->interval_ms && kv_now_ns() - a->began_ns >= NOW_NS)
		kv_timer_set(&a->timer, 0, 0);
}

void prober_models_anew(struct prober *p)
{
	struct asking *a = &p->models;

	if (!a->interval_ms)
		return;
	fetch_cancel(a->fetch);
	a->fetch = NULL;
	fetch_text_free(&p->list);
	kv_timer_set(&a->timer, until_next(a->began_ns, ANEW_MS, kv_now_ns()), 0);
}

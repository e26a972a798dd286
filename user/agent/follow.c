// SPDX-License-Identifier: BSD-2-Clause
#include "agent/follow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/follow_private.h"
#include "agent/pool.h"
#include "common/log.h"
#include "engines/time.h"

#define SYNC_MS 1000

_Static_assert(HEALTH_FULL == KV_WEIGHT_FULL, "told as it is");

/* ---- what the maps tell ---- */

static bool same(const struct followed *b, const struct kv_backend *backend)
{
	return !strcmp(b->name, backend->name) && b->service == backend->service &&
	       !memcmp(b->addr.addr, backend->addr, sizeof(backend->addr)) &&
	       b->addr.port == backend->port;
}

/* It gets requests while it is first asked, as if nobody followed it; but the caches of those that
 * were there at the beginning are as cold or warm as all others'. */
static void begin(struct following *f, __u32 id, struct kv_backend *backend)
{
	struct followed *b = &f->backends[id];
	int err;

	*b = (struct followed){
		.known = true,
		.service = backend->service,
		.answers = kv_read_once(backend->answers),
		.errors = kv_read_once(backend->errors),
		.busy = kv_read_once(backend->busy),
	};
	f->rates[id] = (struct rate){};
	snprintf(b->name, sizeof(b->name), "%s", backend->name);
	memcpy(b->addr.addr, backend->addr, sizeof(b->addr.addr));
	b->addr.port = backend->port;
	if (!f->agent->config->follow.metrics) {
		kv_write_once(backend->foreign_requests, 0);
		kv_write_once(backend->foreign_tokens, 0);
	}
	err = follow_add(f->follow, id, b->service, b->name, &b->addr,
			 backend->state != KV_BACKEND_DOWN, !f->looked);
	if (err) {
		kv_err("backend %s: cannot be followed: %s", b->name, strerror(-err));
		b->known = false;
		return;
	}
	follow_go_on(f->follow, id,
		     &(struct worth_sums){backend->worth_predicted, backend->worth_found});
}

void following_hand_on(struct following *f, __u32 id)
{
	const struct kv_backend *backend = following_backend(f, id);
	struct followed *b = &f->backends[id];
	__u64 errors = kv_read_once(backend->errors), busy = kv_read_once(backend->busy);
	__u64 answers = kv_read_once(backend->answers);
	__u64 bad = errors - b->errors, good = answers - b->answers - bad - (busy - b->busy);

	b->answers = answers;
	b->errors = errors;
	b->busy = busy;
	/* the sums are not read at once */
	good = good > INT32_MAX ? 0 : good;
	follow_counted(f->follow, id, good + b->successes, bad > INT32_MAX ? 0 : bad);
	b->successes = 0;
}

static void look_at(struct following *f, __u32 id)
{
	struct kv_backend *backend = following_backend(f, id);
	struct followed *b = &f->backends[id];
	bool there = backend->state != KV_BACKEND_FREE && !f->agent->pools[id].removing;

	if (b->known && (!there || !same(b, backend))) {
		b->known = false;
		follow_remove(f->follow, id);
	}
	if (there && !b->known)
		begin(f, id, backend);
	if (!b->known)
		return;
	if (b->draining != (backend->state == KV_BACKEND_DRAINING)) {
		b->draining = !b->draining;
		follow_drain(f->follow, id, b->draining);
	}
	if (b->held && backend->state == KV_BACKEND_UP)
		kv_write_once(backend->state, KV_BACKEND_DOWN);
	following_hand_on(f, id);
}

static void look(struct following *f)
{
	for (__u32 id = 0; id < f->agent->dp.max_backends; id++)
		look_at(f, id);
	f->looked = true;
}

static void on_second(void *arg)
{
	struct following *f = arg;
	const struct kv_service *services = f->agent->dp.services;

	look(f);
	for (__u32 i = 0; i < KV_MAX_SERVICES; i++)
		if (services[i].flags)
			rate_look(f->rates, f->agent->dp.backends, &services[i], kv_now_ns());
}

/* ---- beginning and end ---- */

static struct follow_options options(const struct kv_config *config)
{
	struct follow_options o = FOLLOW_DEFAULTS;

	o.health_path = config->follow.health_path;
	o.health_ms = config->follow.health;
	o.health_timeout_ms = config->follow.health_timeout;
	o.models_ms = config->follow.models;
	o.metrics_ms = config->follow.metrics;
	o.metrics_timeout_ms = config->follow.metrics_timeout;
	o.stale_ms = config->follow.stale;
	o.health.fall = config->health.fall;
	o.health.eject_percent = config->health.eject_percent;
	o.health.eject_least = config->health.eject_least;
	o.health.share_percent = config->health.eject_share;
	o.health.eject_ms = config->health.eject_time;
	o.health.slow_start_ms = config->health.slow_start;
	o.health.trial_successes = config->health.trial_successes;
	return o;
}

int following_open(struct agent *agent)
{
	const struct kv_config *config = agent->config;
	struct following *f = calloc(1, sizeof(*f));
	struct follow_calls calls = following_calls;
	struct follow_options o;
	struct timespec t;
	int err;

	if (!f)
		return -ENOMEM;
	f->agent = agent;
	clock_gettime(CLOCK_REALTIME, &t); /* only shown */
	f->started = t.tv_sec + t.tv_nsec / 1e9;
	o = options(config);
	calls.arg = f;
	f->follow = follow_new(agent->base, &o, &calls);
	if (!f->follow) {
		free(f);
		return -ENOMEM;
	}
	err = kv_timer_open(&f->second, agent->base, on_second, f);
	if (err) {
		follow_free(f->follow);
		free(f);
		return err;
	}
	kv_timer_set(&f->second, SYNC_MS, SYNC_MS);
	agent->following = f;
	/* What an agent before has found out of models nobody would take back. */
	for (__u32 i = 0; !config->follow.models && i < KV_MAX_SERVICES; i++)
		kv_atomic_fetch_and(&agent->dp.services[i].flags, ~KV_SERVICE_MODELS);
	err = config->http.port ? following_serve(f, &config->http) : 0;
	look(f);
	return err;
}

void following_close(struct agent *agent)
{
	struct following *f = agent->following;

	if (!f)
		return;
	kv_timer_close(&f->second);
	following_serve_end(f);
	follow_free(f->follow);
	free(f);
	agent->following = NULL;
}

int following_check(struct agent *agent, const struct kv_config *to, char *err, size_t errlen)
{
	struct following *f = agent->following;
	struct page_server *server;
	char text[KV_ADDR_TEXT];
	bool aside;
	int ret;

	if (!to->http.port || kv_addr_equal(&to->http, &agent->config->http))
		return 0;
	/* Of one port a socket may be in the way of another address's, so ours steps aside. */
	aside = f && f->server && to->http.port == agent->config->http.port;
	if (aside)
		following_serve_end(f);
	ret = page_server_open(agent->base, &to->http, NULL, NULL, &server);
	if (ret)
		snprintf(err, errlen, "http: %s: %s; nothing has been changed",
			 kv_addr_format(&to->http, text, sizeof(text)), strerror(-ret));
	else
		page_server_close(server);
	if (aside)
		following_serve(f, &agent->config->http);
	return ret;
}

void following_apply(struct agent *agent, const struct kv_config *from)
{
	struct following *f = agent->following;
	const struct kv_config *to = agent->config;
	struct follow_options o = options(to);

	if (!f || !kv_config_follow_differs(from, to))
		return;
	if (!kv_addr_equal(&from->http, &to->http)) {
		following_serve_end(f);
		if (to->http.port)
			following_serve(f, &to->http);
	}
	if (follow_change(f->follow, &o))
		kv_err("out of memory: some engines are not followed: start the agent again");
}

void following_look(struct agent *agent, __u32 id)
{
	if (agent->following)
		look_at(agent->following, id);
}

/* ---- for the data path ---- */

bool following_holds(const struct agent *agent, __u32 id)
{
	const struct following *f = agent->following;

	return f && f->backends[id].known && f->backends[id].held;
}

void following_outcome(struct agent *agent, __u32 id, enum outcome outcome)
{
	struct following *f = agent->following;

	if (!f || outcome == OUTCOME_NEUTRAL)
		return;
	if (outcome == OUTCOME_SUCCESS) {
		f->backends[id].successes++;
		return;
	}
	/* It is judged at once, so by all that is known of this second. */
	if (f->backends[id].known)
		following_hand_on(f, id);
	follow_outcome(f->follow, id, outcome);
}

void following_connect_failed(struct agent *agent, __u32 id, int err)
{
	following_outcome(agent, id, outcome_of_connect(-err));
}

void following_opened(struct agent *agent, __u32 id)
{
	if (agent->following)
		follow_opened(agent->following->follow, id);
}

void following_connected(struct agent *agent, __u32 id)
{
	if (agent->following)
		follow_connected(agent->following->follow, id);
}

void following_suspect(struct agent *agent, __u32 id)
{
	if (agent->following)
		follow_suspect(agent->following->follow, id);
}

void following_sequence_back(struct agent *agent, __u32 id)
{
	if (agent->following)
		follow_sequence_back(agent->following->follow, id);
}

void following_busy(struct agent *agent, __u32 id, const char *retry_after, size_t len)
{
	if (agent->following)
		follow_busy(agent->following->follow, id, retry_after, len);
}

bool following_is_busy(const struct agent *agent, __u32 id)
{
	return agent->following && follow_is_busy(agent->following->follow, id);
}

void following_lookup(struct agent *agent, __u32 id, enum proof_class class, __u64 matched)
{
	if (agent->following)
		follow_lookup(agent->following->follow, id, class, matched);
}

void following_answered(struct agent *agent, __u32 id, const struct proof_request *r)
{
	if (agent->following)
		follow_answered(agent->following->follow, id, r);
}

bool following_serving(struct agent *agent, __u32 service, const char *model, size_t len,
		       struct model_set *ret)
{
	/* Without any backend it is no question of models. */
	if (!agent->following || !agent->dp.services[service].n_backends) {
		memset(ret, 0xff, sizeof(*ret));
		return true;
	}
	*ret = follow_serving(agent->following->follow, service, model, len);
	return !model_set_empty(ret);
}

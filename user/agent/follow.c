// SPDX-License-Identifier: BSD-2-Clause
#include "agent/follow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/client.h"
#include "agent/pool.h"
#include "agent/service.h"
#include "common/log.h"
#include "common/pins.h"
#include "engines/page_server.h"
#include "engines/time.h"

#define SYNC_MS 1000
#define OUTCOMES_MOST 1000 /* of one second: more say no more */

/* A backend as the follower knows it, and what the follower has said of it. */
struct followed {
	bool known;
	bool draining;
	bool held;
	char name[KV_NAME_LEN];
	struct kv_addr addr;
	__u32 service;
	__u32 weight, limit;
	__u64 foreign;
	__u64 failures; /* the map's sum as handed on */
};

struct following {
	struct agent *agent;
	struct follow *follow;
	struct page_server *server;
	struct kv_pins *pins; /* counters, for the page; NULL: the maps are not pinned */
	struct event second;
	double started;
	bool looked; /* once at all backends */
	struct followed backends[KV_MAX_BACKENDS];
};

static struct kv_backend *backend_at(struct following *f, __u32 id)
{
	return id < f->agent->dp.max_backends ? &f->agent->dp.backends[id] : NULL;
}

/* ---- what the follower tells ---- */

static void on_state(void *arg, uint32_t id, bool takes, uint32_t weight, uint32_t limit)
{
	struct following *f = arg;
	struct followed *b = &f->backends[id];
	struct kv_backend *backend = backend_at(f, id);

	b->held = !takes && !b->draining;
	b->weight = weight;
	b->limit = limit;
	if (b->held && backend->state == KV_BACKEND_UP) {
		kv_write_once(backend->state, KV_BACKEND_DOWN);
		client_move_waiting(f->agent, id);
	} else if (!b->held && backend->state == KV_BACKEND_DOWN && !f->agent->pools[id].away) {
		kv_write_once(backend->state, KV_BACKEND_UP);
	}
}

static void on_new_cache(void *arg, uint32_t id, const char *why)
{
	struct kv_backend *backend = backend_at(arg, id);

	(void)why;
	kv_write_once(backend->epoch, backend->epoch + 1);
}

static const struct kv_config_backend *configured(struct following *f, __u32 id)
{
	const struct kv_config *config = f->agent->config;

	for (__u32 i = 0; i < config->n_services; i++)
		for (__u32 j = 0; j < config->services[i].n_backends; j++)
			if (!strcmp(config->services[i].backends[j].name, f->backends[id].name))
				return &config->services[i].backends[j];
	return NULL;
}

/* What the administrator has set stays. */
static void on_cache_size(void *arg, uint32_t id, uint64_t capacity, uint64_t block_size)
{
	struct following *f = arg;
	struct kv_backend *backend = backend_at(f, id);
	const struct kv_config_backend *config = configured(f, id);

	(void)block_size;
	if (!capacity || !config || config->capacity != KV_DEFAULT_CAPACITY ||
	    backend->capacity == capacity)
		return;
	kv_info("backend %s: capacity %llu, as the engine says", backend->name,
		(unsigned long long)capacity);
	kv_write_once(backend->capacity, capacity);
}

static const struct kv_backend *on_backend(void *arg, uint32_t id)
{
	return backend_at(arg, id);
}

static void on_foreign(void *arg, uint32_t id, uint64_t requests)
{
	struct following *f = arg;

	f->backends[id].foreign = requests;
}

/* ---- what the maps tell ---- */

static bool same(const struct followed *b, const struct kv_backend *backend)
{
	return !strcmp(b->name, backend->name) && b->service == backend->service &&
	       !memcmp(b->addr.addr, backend->addr, sizeof(backend->addr)) &&
	       b->addr.port == backend->port;
}

static void begin(struct following *f, __u32 id, const struct kv_backend *backend)
{
	struct followed *b = &f->backends[id];
	bool up;
	int err;

	*b = (struct followed){.known = true, .service = backend->service};
	snprintf(b->name, sizeof(b->name), "%s", backend->name);
	memcpy(b->addr.addr, backend->addr, sizeof(b->addr.addr));
	b->addr.port = backend->port;
	b->failures = kv_read_once(backend->failures);
	/* Of an agent before: streams are running there. */
	up = !f->looked && f->agent->dp.taken_over && backend->state == KV_BACKEND_UP;
	err = follow_add(f->follow, id, b->service, b->name, &b->addr, up);
	if (err) {
		kv_err("backend %s: cannot be followed: %s", b->name, strerror(-err));
		b->known = false;
	}
}

/* Connections that could not be opened, since the last look. */
static void hand_on(struct following *f, __u32 id, const struct kv_backend *backend)
{
	__u64 failures = kv_read_once(backend->failures);
	__u64 n = failures - f->backends[id].failures;

	f->backends[id].failures = failures;
	for (__u64 i = 0; i < n && i < OUTCOMES_MOST; i++)
		follow_outcome(f->follow, id, OUTCOME_FAILURE);
}

static void look_at(struct following *f, __u32 id)
{
	struct kv_backend *backend = backend_at(f, id);
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
	hand_on(f, id, backend);
}

static void on_second(evutil_socket_t fd, short what, void *arg)
{
	struct timeval next = ms_timeval(SYNC_MS);
	struct following *f = arg;

	(void)fd, (void)what;
	evtimer_add(&f->second, &next);
	for (__u32 id = 0; id < f->agent->dp.max_backends; id++)
		look_at(f, id);
	f->looked = true;
}

/* ---- pages ---- */

static size_t view_backends(struct following *f, struct view_backend *out,
			    char (*addresses)[KV_ADDR_TEXT])
{
	size_t n = 0;

	for (__u32 id = 0; id < f->agent->dp.max_backends; id++) {
		const struct followed *b = &f->backends[id];

		if (!b->known)
			continue;
		out[n] = (struct view_backend){
			.service = f->agent->dp.services[b->service].name,
			.name = b->name,
			.address = kv_addr_format(&b->addr, addresses[n], KV_ADDR_TEXT),
			.map = backend_at(f, id),
		};
		follow_view(f->follow, id, &out[n]);
		n++;
	}
	return n;
}

/* By the maps: what the kernel goes by, and the pools know of first. */
static __u32 taking(const struct following *f, __u32 service)
{
	__u32 n = 0;

	for (__u32 id = 0; id < f->agent->dp.max_backends; id++)
		n += f->agent->dp.backends[id].state == KV_BACKEND_UP &&
		     f->agent->dp.backends[id].service == service;
	return n;
}

static size_t view_services(struct following *f, struct view_service *out)
{
	const struct kv_service *services = f->agent->dp.services;
	size_t n = 0;

	for (__u32 i = 0; i < KV_MAX_SERVICES; i++) {
		if (!services[i].flags)
			continue;
		out[n] = (struct view_service){.name = services[i].name,
					       .policy = kv_policy_name(services[i].policy)};
		follow_view_service(f->follow, i, &out[n]);
		out[n++].taking = taking(f, i);
	}
	return n;
}

static struct page on_page(void *arg, const char *path)
{
	static struct view_backend backends[KV_MAX_BACKENDS];
	static char addresses[KV_MAX_BACKENDS][KV_ADDR_TEXT];
	static struct view_service services[KV_MAX_SERVICES];
	__u64 counters[KV_CNT_MAX];
	struct following *f = arg;
	struct view view = {
		.version = KVSTEER_VERSION,
		.started = f->started,
		.now_ns = kv_now_ns(),
		.draining = f->agent->draining || !f->agent->ready,
		.services = services,
		.backends = backends,
	};

	if (f->pins && !kv_pins_counters(f->pins, counters))
		view.counters = counters;
	view.n_services = view_services(f, services);
	view.n_backends = view_backends(f, backends, addresses);
	return page_of(&view, path);
}

static int serve(struct following *f, const struct kv_addr *http)
{
	char err[KV_CONFIG_ERROR_LEN], text[KV_ADDR_TEXT];
	int ret = page_server_open(f->agent->base, http, on_page, f, &f->server);

	if (ret) {
		kv_err("http: %s: %s", kv_addr_format(http, text, sizeof(text)), strerror(-ret));
		return ret;
	}
	if (*f->agent->dp.pin && kv_pins_open(f->agent->dp.pin, false, &f->pins, err, sizeof(err)))
		kv_warn("http: counters are not shown: %s", err);
	return 0;
}

/* ---- for the agent ---- */

int following_open(struct agent *agent, const struct follow_options *options,
		   const struct kv_addr *http, struct following **ret)
{
	struct following *f = calloc(1, sizeof(*f));
	struct follow_calls calls = {on_state,	 on_new_cache, on_cache_size,
				     on_backend, on_foreign,   f};
	struct timeval now = {0, 0};
	struct timespec t;
	int err;

	if (!f)
		return -ENOMEM;
	f->agent = agent;
	clock_gettime(CLOCK_REALTIME, &t); /* only shown */
	f->started = t.tv_sec + t.tv_nsec / 1e9;
	f->follow = follow_new(agent->base, options, &calls);
	if (!f->follow) {
		free(f);
		return -ENOMEM;
	}
	evtimer_assign(&f->second, agent->base, on_second, f);
	err = http ? serve(f, http) : 0;
	if (err) {
		following_close(f);
		return err;
	}
	evtimer_add(&f->second, &now);
	*ret = f;
	return 0;
}

void following_close(struct following *f)
{
	if (!f)
		return;
	event_del(&f->second);
	page_server_close(f->server);
	follow_free(f->follow);
	kv_pins_close(f->pins);
	free(f);
}

bool following_holds(const struct following *f, __u32 id)
{
	return f && f->backends[id].known && f->backends[id].held;
}

void following_outcome(struct following *f, __u32 id, enum outcome outcome)
{
	if (f)
		follow_outcome(f->follow, id, outcome);
}

void following_busy(struct following *f, __u32 id, const char *retry_after, size_t len)
{
	if (f)
		follow_busy(f->follow, id, retry_after, len);
}

struct follow *following_follow(struct following *f)
{
	return f ? f->follow : NULL;
}

void following_explain(const struct following *f, __u32 id, char *text, size_t size)
{
	struct proof_facts facts = follow_facts(f->follow, id);
	struct view_backend view = {};

	follow_view(f->follow, id, &view);
	proof_explain(&view.verdict, &facts, text, size);
}

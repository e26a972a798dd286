/* SPDX-License-Identifier: BSD-2-Clause */
/* Engines over loopback with lives of their own, followed; what kvsteer was told of them. */
#ifndef UNIT_FOLLOW_LIVES_H
#define UNIT_FOLLOW_LIVES_H

#include <signal.h>
#include <stdlib.h>

#include "check.h"
#include "common/log.h"
#include "engines/follow.h"
#include "loop_server.h"

#define ENGINES 4
#define OK "HTTP/1.0 200 OK\r\n\r\n"

static struct event_base *base;
static struct follow *follow;

/* What each engine says of itself. */
static struct life {
	struct loop_server server;
	int health;
	double started;
	unsigned int running, queries, hits, blocks;
	const char *model;
	char answer[1024];
} lives[ENGINES];

/* What kvsteer was told. */
static struct told {
	bool takes;
	uint32_t weight, limit;
	enum health_state state;
	unsigned int states, caches, sizes;
	unsigned int successes; /* counted, and not yet handed on */
	unsigned int worths, backends;
	struct worth worth;
	uint64_t capacity, foreign;
	struct kv_backend backend;
} told[ENGINES];

static inline const char *page(const struct loop_server *s, const char *path)
{
	struct life *l = s->arg;

	if (!strcmp(path, "/metrics"))
		snprintf(l->answer, sizeof(l->answer),
			 OK "vllm:num_requests_running %u\nvllm:num_requests_waiting 0\n"
			    "vllm:prefix_cache_queries_total %u\nvllm:prefix_cache_hits_total %u\n"
			    "process_start_time_seconds %f\n"
			    "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"%u\"} 1\n",
			 l->running, l->queries, l->hits, l->started, l->blocks);
	else if (!strcmp(path, "/v1/models") && l->model)
		snprintf(l->answer, sizeof(l->answer), OK "{\"data\":[{\"id\":\"%s\"}]}", l->model);
	else
		snprintf(l->answer, sizeof(l->answer), "HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n",
			 strcmp(path, "/v1/models") ? l->health : 404);
	return l->answer;
}

static inline void state(void *arg, uint32_t id, bool takes, uint32_t weight, uint32_t limit,
			 enum health_state state)
{
	(void)arg;
	told[id].state = state;
	told[id].takes = takes;
	told[id].weight = weight;
	told[id].limit = limit;
	told[id].states++;
}

static inline void new_cache(void *arg, uint32_t id)
{
	(void)arg;
	told[id].caches++;
}

static inline void cache_size(void *arg, uint32_t id, uint64_t capacity)
{
	(void)arg;
	told[id].capacity = capacity;
	told[id].sizes++;
}

static inline void hand_on(void *arg, uint32_t id)
{
	uint32_t successes = told[id].successes;

	(void)arg;
	told[id].successes = 0;
	follow_counted(follow, id, successes, 0);
}

static inline const struct kv_backend *backend(void *arg, uint32_t id)
{
	(void)arg;
	told[id].backends++;
	return &told[id].backend;
}

static inline void foreign(void *arg, uint32_t id, uint64_t requests, uint64_t waiting)
{
	(void)arg;
	CHECK(waiting <= requests);
	told[id].foreign = requests;
}

static inline void worth(void *arg, uint32_t id, const struct worth *worth)
{
	(void)arg;
	told[id].worth = *worth;
	told[id].worths++;
}

static bool differ;
static unsigned int differs;

static inline void models(void *arg, uint32_t service, bool now)
{
	(void)arg;
	CHECK_EQ(service, 0);
	differ = now;
	differs += now;
}

static inline void add(uint32_t id)
{
	char name[8];

	snprintf(name, sizeof(name), "e%u", id);
	CHECK_EQ(follow_add(follow, id, 0, name, &lives[id].server.addr, false, false), 0);
}

static bool scrapes = true;
static uint32_t models_ms = 20;

static inline void begin(unsigned int n)
{
	struct follow_options o = FOLLOW_DEFAULTS;
	struct follow_calls calls = {
		.state = state,
		.new_cache = new_cache,
		.cache_size = cache_size,
		.hand_on = hand_on,
		.backend = backend,
		.foreign = foreign,
		.worth = worth,
		.models = models,
	};

	o.health_ms = o.metrics_ms = 20;
	o.models_ms = models_ms;
	if (!scrapes)
		o.metrics_ms = 0;
	o.health_timeout_ms = o.metrics_timeout_ms = 500;
	o.stale_ms = 2000;
	memset(told, 0, sizeof(told));
	follow = follow_new(base, &o, &calls);
	for (unsigned int i = 0; i < n; i++) {
		lives[i] =
			(struct life){.health = 200, .started = 1000, .blocks = 100, .model = "m"};
		lives[i].server.page = page;
		lives[i].server.arg = &lives[i];
		loop_open(&lives[i].server, base);
	}
}

static inline void end(unsigned int n)
{
	follow_free(follow);
	follow = NULL;
	for (unsigned int i = 0; i < n; i++)
		if (lives[i].server.listener)
			loop_close(&lives[i].server);
	loop_for(base, 20);
}

/* Until it takes requests, or does not. */
static inline void until(uint32_t id, bool takes)
{
	__u64 limit = kv_now_ns() + 30000000000ull;

	while (told[id].takes != takes && kv_now_ns() < limit)
		loop_for(base, 5);
	CHECK_EQ(told[id].takes, takes);
}

static inline uint64_t serving(const char *model)
{
	return follow_serving(follow, 0, model, strlen(model)).words[0];
}

static inline void lives_begin(void)
{
	signal(SIGPIPE, SIG_IGN);
	kv_log_set_level(KV_LOG_ERROR);
	base = event_base_new();
}

static inline int lives_done(void)
{
	event_base_free(base);
	return check_done();
}

#endif

// SPDX-License-Identifier: BSD-2-Clause
/* All of it together, over loopback: engines that start, hang, die, come back, restart. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "check.h"
#include "common/log.h"
#include "engines/follow.h"
#include "engines/foreign.h"
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
	unsigned int worths, backends;
	struct worth worth;
	uint64_t capacity, foreign;
	struct kv_backend backend;
} told[ENGINES];

static const char *page(const struct loop_server *s, const char *path)
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

static void state(void *arg, uint32_t id, bool takes, uint32_t weight, uint32_t limit,
		  enum health_state state)
{
	(void)arg;
	told[id].state = state;
	told[id].takes = takes;
	told[id].weight = weight;
	told[id].limit = limit;
	told[id].states++;
}

static void new_cache(void *arg, uint32_t id)
{
	(void)arg;
	told[id].caches++;
}

static void cache_size(void *arg, uint32_t id, uint64_t capacity)
{
	(void)arg;
	told[id].capacity = capacity;
	told[id].sizes++;
}

static const struct kv_backend *backend(void *arg, uint32_t id)
{
	(void)arg;
	told[id].backends++;
	return &told[id].backend;
}

static void foreign(void *arg, uint32_t id, uint64_t requests, uint64_t waiting)
{
	(void)arg;
	CHECK(waiting <= requests);
	told[id].foreign = requests;
}

static void worth(void *arg, uint32_t id, const struct worth *worth)
{
	(void)arg;
	told[id].worth = *worth;
	told[id].worths++;
}

static bool differ;
static unsigned int differs;

static void models(void *arg, uint32_t service, bool now)
{
	(void)arg;
	CHECK_EQ(service, 0);
	differ = now;
	differs += now;
}

static void add(uint32_t id)
{
	char name[8];

	snprintf(name, sizeof(name), "e%u", id);
	CHECK_EQ(follow_add(follow, id, 0, name, &lives[id].server.addr, false, false), 0);
}

static bool scrapes = true;
static uint32_t models_ms = 20;

static void begin(unsigned int n)
{
	struct follow_options o = FOLLOW_DEFAULTS;
	struct follow_calls calls = {state,   new_cache, cache_size, backend,
				     foreign, worth,	 models,     NULL};

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

static void end(unsigned int n)
{
	follow_free(follow);
	follow = NULL;
	for (unsigned int i = 0; i < n; i++)
		if (lives[i].server.listener)
			loop_close(&lives[i].server);
	loop_for(base, 20);
}

/* Until it takes requests, or does not. */
static void until(uint32_t id, bool takes)
{
	__u64 limit = kv_now_ns() + 30000000000ull;

	while (told[id].takes != takes && kv_now_ns() < limit)
		loop_for(base, 5);
	CHECK_EQ(told[id].takes, takes);
}

static void some_dead(void)
{
	unsigned int had;

	begin(ENGINES);
	lives[1].server.silent = true;
	lives[3].health = 503;
	loop_close(&lives[2].server);
	for (int i = 0; i < ENGINES; i++)
		add(i);
	CHECK(!told[0].takes);
	until(0, true);
	had = told[0].states;
	loop_for(base, 250);
	/* its weight rises all the time, and is not told all the time */
	CHECK(told[0].states - had < 4);
	CHECK(told[0].takes && !told[1].takes && !told[2].takes && !told[3].takes);
	/* one that hangs costs the others nothing */
	had = lives[0].server.requests;
	CHECK(loop_until(base, &lives[0].server.requests, had + 5, 1000));
	lives[1].server.silent = false;
	lives[3].health = 200;
	loop_open(&lives[2].server, base);
	for (int i = 0; i < ENGINES; i++)
		until(i, true);
	/* all die, all come back */
	for (int i = 0; i < ENGINES; i++)
		loop_close(&lives[i].server);
	for (int i = 0; i < ENGINES; i++)
		until(i, false);
	for (int i = 0; i < ENGINES; i++)
		loop_open(&lives[i].server, base);
	for (int i = 0; i < ENGINES; i++)
		until(i, true);
	end(ENGINES);
}

static void restarts(void)
{
	struct view_backend view = {};

	begin(2);
	lives[1].started = 0;
	add(0);
	add(1);
	until(0, true);
	until(1, true);
	loop_for(base, 60);
	CHECK_EQ(told[0].caches + told[1].caches, 0);
	CHECK_EQ(told[0].capacity, 1600);
	CHECK_EQ(told[0].sizes, 1);
	/* between two looks at it */
	lives[0].started = 2000;
	lives[0].blocks = 200;
	loop_until(base, &told[0].sizes, 2, 2000);
	CHECK_EQ(told[0].caches, 1);
	CHECK_EQ(told[0].capacity, 3200);
	CHECK(told[0].takes);
	follow_sequence_back(follow, 0);
	CHECK_EQ(told[0].caches, 1);
	follow_view(follow, 0, &view);
	CHECK_EQ(view.restarts, 1);
	/* one that does not say when it started */
	loop_close(&lives[1].server);
	until(1, false);
	CHECK_EQ(told[1].caches, 0);
	loop_open(&lives[1].server, base);
	until(1, true);
	loop_until(base, &told[1].caches, 1, 2000);
	CHECK_EQ(told[1].caches, 1);
	CHECK_EQ(told[0].caches, 1);
	/* refused by the listener alone: its process says that it is the same */
	loop_close(&lives[0].server);
	until(0, false);
	loop_open(&lives[0].server, base);
	until(0, true);
	loop_for(base, 60);
	CHECK_EQ(told[0].caches, 1);
	follow_view(follow, 0, &view);
	CHECK_EQ(view.restarts, 1);
	CHECK_EQ(view.state, HEALTH_UP);
	end(2);
}

/* What a restart takes away, of an engine that was warm and is never seen to be away. */
static void starts_anew(void)
{
	__u64 limit = kv_now_ns() + 30000000000ull;
	struct view_backend view = {};

	begin(1);
	CHECK_EQ(follow_add(follow, 0, 0, "e0", &lives[0].server.addr, true, true), 0);
	loop_until(base, &told[0].sizes, 1, 2000);
	told[0].backend.predicted_tokens = 100000;
	told[0].backend.prompt_tokens = lives[0].queries = 200000;
	do {
		loop_for(base, 5);
		follow_view(follow, 0, &view);
	} while (view.verdict.cause != PROOF_CACHING_OFF && kv_now_ns() < limit);
	CHECK_EQ(view.verdict.cause, PROOF_CACHING_OFF);
	CHECK_EQ(view.weight, HEALTH_FULL);
	lives[0].started = 2000;
	loop_until(base, &told[0].caches, 1, 2000);
	follow_view(follow, 0, &view);
	CHECK_EQ(view.verdict.cause, PROOF_TOO_LITTLE);
	CHECK(!told[0].worth.down);
	CHECK(view.weight < HEALTH_FULL / 4);
	CHECK_EQ(view.state, HEALTH_UP);
	end(1);
}

/* Of what the counters say more was predicted, and so much of that found, until it is told. */
static void predict(uint64_t predicted, unsigned int percent, bool down)
{
	__u64 limit = kv_now_ns() + 30000000000ull;
	unsigned int scrapes = told[0].backends;

	while (told[0].worth.down != down && kv_now_ns() < limit) {
		told[0].backend.predicted_tokens += predicted;
		told[0].backend.prompt_tokens += 2 * predicted;
		lives[0].queries += 2 * predicted;
		lives[0].hits += predicted * percent / 100;
		/* one look at a time: an engine's page may be older than our sums */
		loop_until(base, &told[0].backends, scrapes += 2, 2000);
	}
	CHECK_EQ(told[0].worth.down, down);
}

/* What an engine's counters say of our predictions decides whether these are to count. */
static void worth_by_counters(void)
{
	struct worth_sums before = {70000, 700};

	begin(1);
	CHECK_EQ(follow_add(follow, 0, 0, "e0", &lives[0].server.addr, true, true), 0);
	loop_until(base, &told[0].sizes, 1, 2000);
	predict(9000, 0, true);
	CHECK(told[0].worth.verdict.predicted >= 65536);
	CHECK_EQ(told[0].worth.verdict.found, 0);
	CHECK_EQ(told[0].worth.discount, 100);
	predict(9000, 90, false);
	CHECK(told[0].worth.discount < 50);
	predict(9000, 0, true);
	/* another process is trusted */
	lives[0].started = 2000;
	loop_until(base, &told[0].caches, 1, 2000);
	CHECK(!told[0].worth.down);
	CHECK_EQ(told[0].worth.verdict.predicted, 0);
	/* what an agent before has found out stays until there is evidence to the contrary */
	told[0].worths = 0;
	told[0].worth.down = true;
	follow_go_on(follow, 0, &before);
	loop_for(base, 60);
	CHECK_EQ(told[0].worths, 0);
	predict(9000, 90, false);
	CHECK(told[0].worth.discount < 50);
	end(1);
}

/* Told by who follows them, and has raised the epoch. Other signs of the same count no more. */
static void restarts_by_events(void)
{
	struct view_backend view = {};

	begin(1);
	CHECK_EQ(follow_add(follow, 0, 0, "e0", &lives[0].server.addr, true, true), 0);
	loop_until(base, &told[0].sizes, 1, 2000);
	follow_sequence_back(follow, 0);
	follow_view(follow, 0, &view);
	CHECK_EQ(view.restarts, 1);
	CHECK(view.weight < HEALTH_FULL / 4);
	lives[0].started = 2000;
	loop_for(base, 100);
	follow_view(follow, 0, &view);
	CHECK_EQ(view.restarts, 1);
	CHECK_EQ(told[0].caches, 0);
	end(1);
}

/* Without its metrics there is nobody else to tell. */
static void restarts_by_probes(void)
{
	scrapes = false;
	begin(1);
	scrapes = true;
	add(0);
	until(0, true);
	loop_close(&lives[0].server);
	until(0, false);
	CHECK_EQ(told[0].caches, 0);
	loop_open(&lives[0].server, base);
	until(0, true);
	CHECK_EQ(told[0].caches, 1);
	end(1);
}

/* Refused once, while others of its connections stood: the next one that is opened is enough. */
static void opened(void)
{
	begin(2);
	add(0);
	add(1);
	until(0, true);
	until(1, true);
	follow_outcome(follow, 0, OUTCOME_REFUSED);
	CHECK(!told[0].takes && told[1].takes);
	follow_opened(follow, 1);
	CHECK(!told[0].takes);
	CHECK_EQ(told[1].caches, 0);
	follow_opened(follow, 0);
	CHECK(told[0].takes);
	/* why it takes none is told, too */
	for (int i = 0; i < 5; i++)
		follow_outcome(follow, 0, OUTCOME_FAILURE);
	CHECK_EQ(told[0].state, HEALTH_EJECTED);
	follow_outcome(follow, 0, OUTCOME_REFUSED);
	CHECK_EQ(told[0].state, HEALTH_DOWN);
	end(2);
}

static uint64_t serving(const char *model)
{
	return follow_serving(follow, 0, model, strlen(model)).words[0];
}

static void requests(void)
{
	struct view_service view = {};

	begin(2);
	add(0);
	add(1);
	until(0, true);
	until(1, true);
	for (int i = 0; i < 5; i++)
		follow_outcome(follow, 0, OUTCOME_FAILURE);
	CHECK(!told[0].takes && told[1].takes);
	CHECK_EQ(told[0].state, HEALTH_EJECTED);
	for (int i = 0; i < 9; i++)
		follow_outcome(follow, 1, OUTCOME_FAILURE);
	CHECK(told[1].takes);
	follow_view_service(follow, 0, &view);
	CHECK_EQ(view.backends, 2);
	CHECK_EQ(view.taking, 1);
	CHECK(view.spared > 0);
	/* the last one goes: the ejected one is better than nobody */
	follow_drain(follow, 1, true);
	CHECK(told[0].takes && !told[1].takes);
	follow_drain(follow, 1, false);
	CHECK(told[1].takes);
	CHECK_EQ(serving("m"), 3);
	follow_remove(follow, 1);
	CHECK_EQ(serving("m"), 1);
	follow_outcome(follow, 1, OUTCOME_FAILURE);
	CHECK(told[0].takes);
	/* back-pressure */
	CHECK(!follow_is_busy(follow, 0));
	follow_busy(follow, 0, "1", 1);
	CHECK(follow_is_busy(follow, 0) && !follow_is_busy(follow, 1));
	CHECK_EQ(follow_add(follow, 0, 0, "x", &lives[0].server.addr, false, false), -EEXIST);
	/* known from before: takes requests at once, until it is found to be away */
	follow_remove(follow, 0);
	loop_close(&lives[0].server);
	CHECK_EQ(follow_add(follow, 0, 0, "again", &lives[0].server.addr, true, true), 0);
	CHECK(told[0].takes);
	CHECK_EQ(told[0].weight, HEALTH_FULL);
	until(0, false);
	CHECK_EQ(follow_add(follow, 999, 0, "x", &lives[0].server.addr, false, false), -EINVAL);
	CHECK_EQ(follow_add(follow, 1, 99, "x", &lives[0].server.addr, false, false), -EINVAL);
	end(2);
}

static void models_and_load(void)
{
	struct view_backend view = {};
	__u64 limit = kv_now_ns() + 30000000000ull;

	begin(2);
	lives[1].model = "n";
	lives[0].running = 7;
	told[0].backend.inflight_requests = 3;
	add(0);
	add(1);
	CHECK_EQ(serving("n"), 3);
	/* "x": one that has been away for a moment has yet to be asked again */
	while ((serving("n") != 2 || serving("m") != 1 || serving("x")) && kv_now_ns() < limit)
		loop_for(base, 5);
	CHECK_EQ(serving("n"), 2);
	CHECK_EQ(serving("m"), 1);
	CHECK_EQ(serving("x"), 0);
	lives[0].model = "x";
	while (serving("x") != 1 && kv_now_ns() < limit)
		loop_for(base, 5);
	CHECK_EQ(serving("x"), 1);
	CHECK_EQ(follow_serving(follow, 5, "x", 1).words[0], 0);
	/* predicted and found, by the counters of both sides */
	loop_for(base, 40);
	told[0].backend.predicted_tokens = 100000;
	told[0].backend.prompt_tokens = 200000;
	lives[0].queries = 200000;
	lives[0].hits = 10000;
	told[0].backend.capacity = 262144;
	loop_for(base, 60);
	follow_view(follow, 0, &view);
	CHECK_EQ(view.verdict.cause, PROOF_CAPACITY);
	CHECK_EQ(report_age(view.report, kv_now_ns(), view.stale_ns), REPORT_FRESH);
	end(2);
}

/* Restarts engine 1 with that model. */
static void restart_with(const char *model)
{
	loop_close(&lives[1].server);
	until(1, false);
	lives[1].model = model;
	lives[1].started++;
	loop_open(&lives[1].server, base);
	until(1, true);
}

/* Whoever comes back is asked at once, and not believed to be what it was until then. */
static void models_of_restarted(void)
{
	__u64 limit = kv_now_ns() + 30000000000ull;
	unsigned int before;

	models_ms = 600000;
	begin(2);
	models_ms = 20;
	add(0);
	add(1);
	until(0, true);
	until(1, true);
	while (differ && kv_now_ns() < limit)
		loop_for(base, 5);
	before = differs;
	restart_with("n");
	CHECK_EQ(differs, before + 1);
	CHECK_EQ(serving("m"), 1);
	while (serving("x") && kv_now_ns() < limit) /* until then it may be there */
		loop_for(base, 5);
	CHECK(differ);
	CHECK_EQ(serving("n"), 2);
	CHECK_EQ(serving("x"), 0);
	restart_with("m");
	while (differ && kv_now_ns() < limit)
		loop_for(base, 5);
	CHECK(!differ);
	CHECK_EQ(serving("m"), 3);
	/* one that says nothing of its models is not waited for */
	restart_with(NULL);
	while (differ && kv_now_ns() < limit)
		loop_for(base, 5);
	CHECK(!differ);
	end(2);
}

/* Other options: what is known stays. */
static void changes(void)
{
	__u64 limit = kv_now_ns() + 30000000000ull;
	struct follow_options o = FOLLOW_DEFAULTS;
	struct view_backend view = {};
	unsigned int had;

	begin(2);
	add(0);
	add(1);
	until(0, true);
	until(1, true);
	loop_until(base, &told[0].sizes, 1, 2000);
	for (int i = 0; i < 5; i++)
		follow_outcome(follow, 0, OUTCOME_FAILURE);
	CHECK(!told[0].takes && told[1].takes);
	/* how it is judged from now on */
	o.health_ms = o.metrics_ms = o.models_ms = 20;
	o.health_timeout_ms = o.metrics_timeout_ms = 500;
	o.stale_ms = 2000;
	o.health.eject_least = 2;
	had = told[0].sizes;
	CHECK_EQ(follow_change(follow, &o), 0);
	CHECK(!told[0].takes && told[1].takes);
	follow_view(follow, 0, &view);
	CHECK_EQ(view.state, HEALTH_EJECTED);
	CHECK_EQ(report_age(view.report, kv_now_ns(), view.stale_ns), REPORT_FRESH);
	/* what it is asked, and how often */
	o.metrics_ms = 10;
	o.health_path = "/live";
	CHECK_EQ(follow_change(follow, &o), 0);
	follow_view(follow, 0, &view);
	CHECK_EQ(view.state, HEALTH_EJECTED);
	lives[1].health = 503;
	until(1, false);
	CHECK_EQ(told[0].sizes, had);
	had = lives[0].server.requests;
	CHECK(loop_until(base, &lives[0].server.requests, had + 5, 2000));
	/* nothing at all: nobody is down for what nobody asks */
	o.health_ms = o.metrics_ms = o.models_ms = 0;
	lives[0].model = "n";
	while (!differ && kv_now_ns() < limit)
		loop_for(base, 5);
	CHECK(differ);
	CHECK_EQ(follow_change(follow, &o), 0);
	CHECK(told[1].takes && !differ);
	CHECK_EQ(serving("x"), 3);
	CHECK_EQ(told[0].foreign, 0);
	loop_for(base, 20); /* what was under way */
	had = lives[0].server.requests;
	loop_for(base, 60);
	CHECK_EQ(lives[0].server.requests, had);
	end(2);
}

static void foreign_load(void)
{
	struct engine_load load = {.has = LOAD_RUNNING | LOAD_WAITING, .running = 10, .waiting = 4};
	struct engine_load silent = {.has = LOAD_RUNNING, .running = 99};
	struct foreign f = {};
	__u64 now = 1000000000;

	foreign_reported(&f, &load, 4, now);
	CHECK(f.requests == 0);
	for (int i = 0; i < 100; i++)
		foreign_reported(&f, &load, 4, now += 1000000000);
	CHECK(f.requests > 9.9 && f.requests <= 10);
	/* what it does not say, or has not said for long, changes nothing */
	foreign_reported(&f, &silent, 0, now += 1000000000);
	CHECK(f.requests > 9.9 && f.requests <= 10);
	/* never below our own count; and slowly */
	foreign_reported(&f, &load, 40, now += 1000000000);
	CHECK(f.requests > 8 && f.requests < 9);
	for (int i = 0; i < 100; i++)
		foreign_reported(&f, &load, 40, now += 1000000000);
	CHECK(f.requests >= 0 && f.requests < 0.1);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	kv_log_set_level(KV_LOG_ERROR);
	base = event_base_new();
	TEST("some dead at the start, all die, all come back")
	some_dead();
	TEST("restarts")
	restarts();
	TEST("what a restart takes away")
	starts_anew();
	TEST("predictions that do not come true, by the counters")
	worth_by_counters();
	TEST("restarts, by events")
	restarts_by_events();
	TEST("restarts, by probes alone")
	restarts_by_probes();
	TEST("refused once")
	opened();
	TEST("requests tell, too")
	requests();
	TEST("models, load and proof")
	models_and_load();
	TEST("models of one that was started again")
	models_of_restarted();
	TEST("other options")
	changes();
	TEST("requests of others")
	foreign_load();
	event_base_free(base);
	return check_done();
}

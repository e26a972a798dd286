// SPDX-License-Identifier: BSD-2-Clause
/* Who is followed, and how that goes. */
#include "agent/told_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/follow.h"
#include "agent/pool.h"
#include "agent/tokenize.h"
#include "common/log.h"

#define RETRY (5 * SECOND)  /* after a failure */
#define LOST (5 * SECOND)   /* without a connection */
#define SETTLE (2 * SECOND) /* an epoch that somebody else has raised stands so long */

/* Tried again in a while. */
static void fail(struct told *t, __u32 id, __u32 ranks, int err)
{
	struct told_backend *b = &t->backends[id];

	kv_err("backend %s: its events cannot be followed: %s", b->name, strerror(-err));
	kv_write_once(t->agent->dp.backends[id].told, KV_TOLD_OFF);
	told_sources_remove(t, b, ranks);
	b->on = false;
	b->retry_ns = kv_now_ns() + RETRY;
}

static void begin(struct told *t, __u32 id)
{
	struct told_backend *b = &t->backends[id];
	struct kv_backend *backend = &t->agent->dp.backends[id];
	const char *model;
	__u32 rank = 0;
	int err;

	if (kv_now_ns() < b->retry_ns)
		return;
	b->retry_ns = kv_now_ns() + RETRY;
	model = told_model(t, id);
	if (!model)
		return;
	/* What was told before, to another agent, may have gone unheard. */
	told_sink_void(backend);
	b->counted = calloc(b->way.events.ranks, sizeof(*b->counted));
	err = b->counted ? told_follower_start(t) : -ENOMEM;
	/* Of one that is off nothing is told. */
	if (!err)
		kv_write_once(backend->told, KV_TOLD_UNSURE);
	for (; !err && rank < b->way.events.ranks; rank++)
		err = told_source_add(t, id, rank, model);
	if (!err && b->way.events.poll)
		err = told_poll_begin(t, b);
	b->on = true;
	b->lost = false;
	b->connected_ns = kv_now_ns();
	b->epoch = kv_read_once(backend->epoch);
	if (err)
		fail(t, id, rank, err);
}

static void end(struct told *t, __u32 id)
{
	struct told_backend *b = &t->backends[id];
	struct kv_backend *backend = &t->agent->dp.backends[id];

	kv_write_once(backend->told, KV_TOLD_OFF);
	if (b->on)
		told_sources_remove(t, b, b->way.events.ranks);
	b->on = false;
	if (t->tokenizer)
		tokenize_forget(t->tokenizer, id);
	told_model_forget(b);
	kv_write_once(backend->told_held, 0);
	*b = (struct told_backend){};
}

/* ---- how it goes --------------------------------------------------------------------- */

static void count_source(struct dataplane *dp, const struct kv_follow_stats *is,
			 const struct kv_follow_stats *was)
{
#define ADD(counter, field) dp->counters[KV_CNT_##counter] += is->field - was->field
	ADD(told_messages, messages);
	ADD(told_stored, index.blocks_stored);
	ADD(told_removed, index.blocks_removed);
	ADD(told_cleared, index.clears);
	ADD(told_gaps, sequence.gaps);
	ADD(told_replays, sequence.replays);
	ADD(told_replays_failed, sequence.replays_failed);
	ADD(told_restarts, sequence.restarts);
	ADD(told_unreadable, bad_frames);
	ADD(told_unreadable, bad_payloads);
	ADD(told_malformed, malformed_events);
	ADD(told_malformed, index.malformed);
	ADD(told_unknown, unknown_events);
	ADD(told_unknown, unknown_fields);
	ADD(told_ignored_groups, index.ignored_groups);
	ADD(told_unfit, index.unfit);
	ADD(told_orphans_dropped, index.orphans_dropped);
	ADD(told_refused, index.refused);
	ADD(told_refused, index.evicted);
#undef ADD
}

/* One of several ranks forgets its own blocks only: other signs tell of its engine. */
static void look_for_restart(struct told *t, const struct told_backend *b,
			     const struct kv_follow_stats *is)
{
	if (b->way.events.ranks == 1 && is->sequence.restarts > b->counted[0].sequence.restarts)
		following_sequence_back(t->agent, b - t->backends);
}

/* All sources of a backend as one. Else the first error of any. */
static int sum(struct told *t, struct told_backend *b, struct kv_follow_stats *ret)
{
	char name[TOLD_SOURCE_LEN];
	int err;

	*ret = (struct kv_follow_stats){.connected = true, .complete = true};
	for (__u32 rank = 0; rank < b->way.events.ranks; rank++) {
		struct kv_follow_stats stats;

		told_source_name(b, rank, name);
		err = kv_follow_stats(t->follow, name, &stats);
		if (err)
			return err;
		look_for_restart(t, b, &stats);
		count_source(&t->agent->dp, &stats, &b->counted[rank]);
		b->counted[rank] = stats;
		ret->connected &= stats.connected;
		ret->complete &= stats.complete;
		ret->replaying |= stats.replaying;
		ret->held += stats.held;
		ret->block = stats.block ? stats.block : ret->block;
	}
	return 0;
}

static void look(struct told *t, __u32 id)
{
	struct told_backend *b = &t->backends[id];
	struct kv_backend *backend = &t->agent->dp.backends[id];
	__u64 now = kv_now_ns();
	struct kv_follow_stats is;
	bool heard;
	int err = sum(t, b, &is);

	if (err && err != -EINPROGRESS)
		fail(t, id, b->way.events.ranks, err);
	if (err)
		return;
	if (is.connected)
		b->connected_ns = now;
	if (!b->lost && now - b->connected_ns > LOST) {
		b->lost = true;
		told_sink_void(backend);
	}
	heard = is.connected && !is.replaying;
	if (b->epoch != kv_read_once(backend->epoch)) {
		b->epoch = kv_read_once(backend->epoch);
		b->epoch_ns = now;
	}
	/* Its cache was taken for lost, or we had not heard it: what it holds nevertheless. */
	if (heard && (b->lost || (b->epoch_ns && now - b->epoch_ns > SETTLE))) {
		b->lost = false;
		b->epoch_ns = 0;
		told_sink_retell(&t->sink, id);
		kv_follow_wake(t->follow);
	}
	kv_write_once(backend->told, !heard || b->lost ? KV_TOLD_UNSURE
				     : is.complete     ? KV_TOLD_COMPLETE
						       : KV_TOLD_FOLLOWED);
	kv_write_once(backend->told_held, is.held);
	/* A cache that has been emptied does not say it anew until its next block. */
	if (is.block)
		kv_write_once(backend->told_block, is.block);
}

/* ---- each second --------------------------------------------------------------------- */

/* How a backend is to be followed. False: it is not. */
static bool wanted(const struct agent *agent, __u32 id, struct told_way *ret)
{
	const struct kv_backend *backend = &agent->dp.backends[id];
	const struct kv_service *service = &agent->dp.services[backend->service];

	memset(ret, 0, sizeof(*ret));
	if (backend->state == KV_BACKEND_FREE || agent->pools[id].removing)
		return false;
	if (!service->events.on)
		return false;
	ret->events = service->events;
	/* The kernel reads these where they are. */
	memset(ret->events.weight, 0, sizeof(ret->events.weight));
	if (!service->events.poll) {
		ret->port = backend->events_port ?: service->events.port;
		ret->replay_port = backend->replay_port ?: service->events.replay_port;
	}
	memcpy(ret->address.addr, backend->addr, sizeof(backend->addr));
	ret->address.port = backend->port;
	return true;
}

static void look_at(struct told *t, __u32 id)
{
	const struct kv_backend *backend = &t->agent->dp.backends[id];
	struct told_backend *b = &t->backends[id];
	struct told_way way;
	bool want = wanted(t->agent, id, &way);

	if (*b->name &&
	    (!want || strcmp(b->name, backend->name) || memcmp(&b->way, &way, sizeof(way))))
		end(t, id);
	if (!want)
		return;
	if (!*b->name) {
		memcpy(b->name, backend->name, sizeof(b->name));
		b->way = way;
	}
	if (b->on)
		look(t, id);
	else
		begin(t, id);
}

static void on_second(void *arg)
{
	struct told *t = arg;
	uint64_t bytes, strangers;
	uint32_t entries;

	for (__u32 id = 0; id < t->agent->dp.max_backends; id++)
		look_at(t, id);
	if (!t->follow)
		return;
	kv_follow_totals(t->follow, &bytes, &entries, &strangers);
	t->agent->dp.counters[KV_CNT_told_strangers] += strangers - t->strangers;
	t->strangers = strangers;
}

/* ---- for the agent ------------------------------------------------------------------- */

__u32 told_block(const struct agent *agent, __u32 service)
{
	if (!agent->dp.services[service].events.on)
		return 0;
	for (__u32 i = 0; i < agent->dp.services[service].n_backends; i++) {
		__u32 id = agent->dp.services[service].backends[i];

		if (agent->dp.backends[id].told_block)
			return agent->dp.backends[id].told_block;
	}
	return 0;
}

int told_open(struct agent *agent)
{
	struct told *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return -ENOMEM;
	t->agent = agent;
	agent->telling = t;
	/* What the agent before was told counts as learned until the engines are heard again. */
	for (__u32 id = 0; id < agent->dp.max_backends; id++) {
		struct kv_backend *backend = &agent->dp.backends[id];

		if (backend->told == KV_TOLD_OFF)
			continue;
		told_sink_void(backend);
		kv_write_once(backend->told, KV_TOLD_OFF);
	}
	err = kv_timer_open(&t->second, agent->base, on_second, t);
	if (!err)
		kv_timer_set(&t->second, 0, 1000);
	return err;
}

void told_removed(struct agent *agent, __u32 id)
{
	if (agent->telling && *agent->telling->backends[id].name)
		end(agent->telling, id);
}

void told_close(struct agent *agent)
{
	struct told *t = agent->telling;

	if (!t)
		return;
	kv_timer_close(&t->second);
	for (__u32 id = 0; id < agent->dp.max_backends; id++) {
		told_poll_stop(&t->backends[id]);
		told_model_forget(&t->backends[id]);
		free(t->backends[id].counted);
	}
	told_follower_stop(t);
	free(t);
	agent->telling = NULL;
}

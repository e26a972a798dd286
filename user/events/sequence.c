// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>

#include "events/sequence.h"

static void take(struct kv_sequence *s, struct kv_message *m, uint64_t now);

void kv_sequence_init(struct kv_sequence *s, const struct kv_sequence_limits *limits,
		      const struct kv_sequence_ops *ops, void *ctx)
{
	*s = (struct kv_sequence){.ops = ops, .ctx = ctx, .limits = *limits};
}

static void drop_held(struct kv_sequence *s)
{
	for (uint32_t i = 0; i < s->n_held; i++)
		s->ops->release(s->ctx, &s->held[i]);
	s->n_held = 0;
	s->held_bytes = 0;
}

void kv_sequence_exit(struct kv_sequence *s)
{
	drop_held(s);
	free(s->held);
	s->held = NULL;
}

static void apply(struct kv_sequence *s, struct kv_message *m)
{
	s->any = s->dirty = true;
	s->last = m->seq;
	s->digest = m->digest;
	s->stats.applied++;
	s->ops->apply(s->ctx, m);
}

static void skip(struct kv_sequence *s, struct kv_message *m)
{
	s->stats.duplicates++;
	s->ops->release(s->ctx, m);
}

static void hold(struct kv_sequence *s, struct kv_message *m)
{
	/* What is not held shows as a gap after the replay, and is asked for then. */
	if (s->n_held >= s->limits.hold_count || s->held_bytes + m->bytes > s->limits.hold_bytes) {
		s->stats.held_dropped++;
		s->ops->release(s->ctx, m);
		return;
	}
	if (s->n_held == s->held_capacity) {
		uint32_t capacity = s->held_capacity ? 2 * s->held_capacity : 16;
		struct kv_message *held = reallocarray(s->held, capacity, sizeof(*held));

		if (!held) {
			s->stats.held_dropped++;
			s->ops->release(s->ctx, m);
			return;
		}
		s->held = held;
		s->held_capacity = capacity;
	}
	s->held[s->n_held++] = *m;
	s->held_bytes += m->bytes;
}

/* Something of this life was missed; what has been applied may be wrong now. */
static void lose(struct kv_sequence *s)
{
	s->lost = true;
	if (s->dirty)
		s->ops->unsure(s->ctx);
	s->dirty = false;
}

static void all_is_there(struct kv_sequence *s)
{
	s->lost = false;
	s->dirty = true;
	s->ops->complete(s->ctx);
}

static void ask(struct kv_sequence *s)
{
	s->waiting = false;
	s->stats.replays++;
	s->ops->ask(s->ctx, s->any ? s->last : s->limits.first);
}

static void replay(struct kv_sequence *s, uint64_t now)
{
	if (s->state != KV_SEQUENCE_REPLAY)
		s->asked_ns = now;
	s->state = KV_SEQUENCE_REPLAY;
	s->answered = s->progress = false;
	s->check = s->any;
	s->heard_ns = now;
	/* A new life is asked about at once, but an endless row of them only now and then. */
	s->waiting = !s->any && s->restarted_ns && now - s->restarted_ns < s->limits.restart_ns;
	if (!s->waiting)
		ask(s);
}

static bool may_replay(const struct kv_sequence *s, uint64_t now)
{
	return s->limits.replay && now >= s->quiet_until;
}

/* The replay is over: on with what has come meanwhile. */
static void resume(struct kv_sequence *s, uint64_t now)
{
	struct kv_message *held = s->held;
	uint32_t n = s->n_held;

	s->ops->stop(s->ctx);
	s->state = s->any ? KV_SEQUENCE_LIVE : KV_SEQUENCE_NEW;
	if (!s->lost)
		all_is_there(s);
	s->held = NULL;
	s->n_held = s->held_capacity = 0;
	s->held_bytes = 0;
	for (uint32_t i = 0; i < n; i++)
		if (s->state == KV_SEQUENCE_LIVE && held[i].seq <= s->last)
			skip(s, &held[i]); /* the replay has brought it */
		else
			take(s, &held[i], now);
	free(held);
}

/* Another life of the engine. */
static void restart(struct kv_sequence *s, uint64_t now)
{
	s->stats.restarts++;
	if (s->state == KV_SEQUENCE_REPLAY)
		s->ops->stop(s->ctx);
	drop_held(s);
	s->state = KV_SEQUENCE_NEW;
	s->any = s->any_live = s->lost = s->dirty = s->empty = false;
	s->quiet_until = 0;
	s->ops->restarted(s->ctx);
	if (s->limits.replay)
		replay(s, now);
	s->restarted_ns = now;
}

void kv_sequence_connected(struct kv_sequence *s, uint64_t now)
{
	if (s->state == KV_SEQUENCE_REPLAY)
		s->ops->stop(s->ctx);
	drop_held(s);
	s->any_live = s->empty = false;
	if (s->limits.replay) {
		replay(s, now);
		return;
	}
	if (s->state != KV_SEQUENCE_NEW)
		lose(s);
	s->state = KV_SEQUENCE_NEW;
	s->any = false;
}

/* A live message in its turn. */
static void take(struct kv_sequence *s, struct kv_message *m, uint64_t now)
{
	if (s->state == KV_SEQUENCE_REPLAY) {
		hold(s, m);
		return;
	}
	if (s->state == KV_SEQUENCE_NEW) {
		if (m->seq != s->limits.first && !s->empty && may_replay(s, now)) {
			replay(s, now);
			hold(s, m);
			return;
		}
		s->state = KV_SEQUENCE_LIVE;
		if (m->seq == s->limits.first)
			all_is_there(s);
		else
			lose(s);
		apply(s, m);
		return;
	}
	if (m->seq == s->last && m->digest == s->digest) {
		skip(s, m);
		return;
	}
	if (m->seq <= s->last) {
		restart(s, now);
		take(s, m, now);
		return;
	}
	if (m->seq != s->last + 1) {
		s->stats.gaps++;
		if (may_replay(s, now)) {
			replay(s, now);
			hold(s, m);
			return;
		}
		lose(s);
	}
	apply(s, m);
}

void kv_sequence_live(struct kv_sequence *s, struct kv_message *m, uint64_t now)
{
	/* Live ones are compared with each other as well: while a replay runs, `last` is behind. */
	if (s->state == KV_SEQUENCE_REPLAY && s->any_live && m->seq < s->live)
		restart(s, now);
	s->any_live = true;
	s->live = m->seq;
	take(s, m, now);
}

void kv_sequence_replayed(struct kv_sequence *s, struct kv_message *m, uint64_t now)
{
	uint64_t from = s->check ? s->last : s->limits.first;

	if (s->state != KV_SEQUENCE_REPLAY || s->waiting || (!s->answered && m->seq < from)) {
		s->ops->release(s->ctx, m);
		return;
	}
	s->heard_ns = now;
	if (!s->answered) {
		s->answered = true;
		if (s->check && m->seq == s->last && m->digest != s->digest) {
			s->ops->release(s->ctx, m);
			restart(s, now);
			return;
		}
		/* The buffer does not go back so far. */
		if (m->seq > (s->check ? from + 1 : from)) {
			s->quiet_until = now + s->limits.pause_ns;
			lose(s);
		}
	} else if (m->seq > s->last + 1 && s->progress) {
		/* Publishers drop what their queue has no room for. */
		s->ops->release(s->ctx, m);
		s->ops->stop(s->ctx);
		replay(s, now);
		return;
	} else if (m->seq > s->last + 1) {
		s->quiet_until = now + s->limits.pause_ns;
		lose(s);
	}
	if (s->any && m->seq <= s->last) {
		skip(s, m);
		return;
	}
	s->progress = true;
	apply(s, m);
}

void kv_sequence_replay_end(struct kv_sequence *s, uint64_t now)
{
	if (s->state != KV_SEQUENCE_REPLAY || s->waiting)
		return;
	/* It knows no message of that number: it is younger. */
	if (!s->answered && s->check) {
		restart(s, now);
		return;
	}
	/* Nothing yet: a live one that is not the first will be taken as it is. */
	s->empty = !s->answered;
	resume(s, now);
}

uint64_t kv_sequence_tick(struct kv_sequence *s, uint64_t now)
{
	uint64_t idle = s->heard_ns + s->limits.idle_ns, total = s->asked_ns + s->limits.total_ns;
	uint64_t until = idle < total ? idle : total;

	if (s->state != KV_SEQUENCE_REPLAY)
		return UINT64_MAX;
	if (s->waiting) {
		until = s->restarted_ns + s->limits.restart_ns;
		if (now >= until) {
			s->heard_ns = now;
			ask(s);
			until = now + s->limits.idle_ns;
		}
	}
	if (now < until)
		return until;
	s->stats.replays_failed++;
	s->quiet_until = now + s->limits.pause_ns;
	lose(s);
	resume(s, now);
	return s->state == KV_SEQUENCE_REPLAY ? kv_sequence_tick(s, now) : UINT64_MAX;
}

void kv_sequence_spoiled(struct kv_sequence *s)
{
	lose(s);
}

void kv_sequence_cleared(struct kv_sequence *s)
{
	s->lost = false;
}

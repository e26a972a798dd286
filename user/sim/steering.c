// SPDX-License-Identifier: BSD-2-Clause
#define KV_ONE_THREAD
#include "sim/steering.h"

#include "common/config.h"
#include "common/rate.h"
#include "common/worth.h"
#include "sim/ring.h"
#include "sim/world.h"

#define EPOCH_NS 1000000000000ull
#define SETS_MIN 512u
#define SETS_FIRST 16384u /* at most: 10 MB */

struct told {
	struct sim_steering *steering;
	__u32 backend;
};

struct sim_steering {
	struct kv_steer st;
	struct steer_world world;
	struct kv_steer tell; /* scratch: engines may tell between a decision and its commit */
	struct kv_telling telling;
	struct told told[KV_MAX_BACKENDS];
	struct sim_ring waiting[KV_MAX_BACKENDS]; /* of struct kv_dispatch */
	__u32 sets_max;
	int err; /* of room for what an engine has told */
	bool is_told;
	bool learn_rates;
	struct rate rates[KV_MAX_BACKENDS];
	struct worth worth[KV_MAX_BACKENDS];
	__u32 doubts, backs;
};

/* ---- the table of prefixes ------------------------------------------------------------ */

static bool is_live(const struct steer_world *w, const struct kv_prefix *p, __u64 hash)
{
	__u64 holder;

	for (int j = 0; j < KV_HOLDERS; j++) {
		holder = kv_prefix_bind(p->holder[j], hash);
		if (holder && kv_holder_live(holder, &w->backends[kv_holder_backend(holder)]))
			return true;
	}
	return false;
}

/* The others move to a table of so many sets. */
static int grow(struct steer_world *w, __u32 sets)
{
	struct kv_prefix_set *old = w->prefixes, *table = world_prefixes(sets), *to;
	__u32 old_sets = w->prefix_sets, at;

	if (!table)
		return -ENOMEM;
	w->prefixes = table;
	w->prefix_sets = sets;
	for (__u32 i = 0; i < old_sets * KV_WAYS; i++) {
		const struct kv_prefix_set *from = &old[i / KV_WAYS];
		__u32 way = i % KV_WAYS;
		__u64 hash = from->hash[way];

		if (!hash)
			continue;
		to = kv_world_prefix_set(hash);
		at = kv_prefix_room(to, hash, kv_prefix_tick(w->now));
		to->hash[at] = hash;
		to->touched[at] = from->touched[way];
		to->entry[at] = from->entry[way];
	}
	world_prefixes_free(old, old_sets);
	return 0;
}

/* A place for this prefix: its own, one that is free, or one whose entry has no live holder; to the
 * core that is worth as much as none. */
static bool has_room(const struct steer_world *w, __u64 hash)
{
	struct kv_prefix_set *set = kv_world_prefix_set(hash);
	__u32 home = kv_prefix_home(hash), way;
	__u64 there;

	for (__u32 i = 0; i < KV_WAYS; i++) {
		way = (home + i) % KV_WAYS;
		there = set->hash[way];
		if (there && there != kv_prefix_name(hash) && is_live(w, &set->entry[way], there))
			continue;
		if (there != kv_prefix_name(hash))
			set->hash[way] = 0;
		return true;
	}
	return false;
}

/*
 * Lest a live entry has to go for another one because their set is full, the table grows then. The
 * live ones are bounded by what the caches hold; so the table is as large as the fleet wants it,
 * however long the trace.
 */
static int make_room(struct sim_steering *s, __u64 hash)
{
	struct steer_world *w = &s->world;
	int err = 0;

	while (!err && !has_room(w, hash) && w->prefix_sets < s->sets_max)
		err = grow(w, 2 * w->prefix_sets);
	return err;
}

/* For what a request will teach: its rungs that are not known, and those that were not looked for,
 * the shallowest. */
static int make_room_for(struct sim_steering *s, const struct kv_steer *st)
{
	__u32 unlooked = st->query.n_rungs - st->looked;
	__u64 todo = st->absent | ((1ull << unlooked) - 1);
	int err = 0;

	for (; todo && !err; todo &= todo - 1)
		err = make_room(s, st->query.rungs[__builtin_ctzll(todo)].hash);
	return err;
}

/* Twice the room for sessions, whose entries are kept if they are worth anything. */
static int make_session_room(struct steer_world *w)
{
	struct world_session *old = w->sessions, *table;
	__u32 slots = w->session_slots;
	__u64 holder;

	if (w->n_sessions < w->max_sessions)
		return 0;
	table = calloc(2 * slots, sizeof(*table));
	if (!table)
		return -ENOMEM;
	w->sessions = table;
	w->session_slots = 2 * slots;
	w->max_sessions = w->session_slots / 4 * 3;
	w->n_sessions = 0;
	for (__u32 i = 0; i < slots; i++) {
		holder = old[i].value.holder;
		if (holder && kv_holder_live(holder, &w->backends[kv_holder_backend(holder)]))
			*kv_world_session_create(old[i].key) = old[i].value;
	}
	free(old);
	return 0;
}

/* ---- engines that tell ---------------------------------------------------------------- */

static void on_changed(void *ctx, uint64_t id, bool stored)
{
	struct told *t = ctx;
	struct sim_steering *s = t->steering;

	s->telling.backend = t->backend;
	s->telling.epoch = s->world.backends[t->backend].epoch;
	s->telling.gone = !stored;
	s->telling.n = 1;
	s->telling.hash[0] = sim_block_hash(id);
	if (stored && !s->err)
		s->err = make_room(s, s->telling.hash[0]);
	kv_tell(&s->tell, &s->telling);
}

/* What does not fit the cache never gets there: what was learned of it at dispatch is taken back,
 * as if it had failed, and only what was told counts. */
static void forget_untold(struct kv_dispatch *d)
{
	for (__u32 i = 0; i < d->query.n_rungs; i++)
		kv_settle_rung(i, d, false);
}

/* ---- the router ----------------------------------------------------------------------- */

struct sim_steering *sim_steering_new(enum kv_policy policy, const struct sim_options *options,
				      struct sim_engine *engines)
{
	struct sim_steering *s = calloc(1, sizeof(*s));
	__u64 blocks = (__u64)options->backends * options->blocks;
	__u32 sets = SETS_MIN;

	/* About every fourth block is a rung. A set for each block leaves most rungs their home, so
	 * that it is found, fetched and cleared at the first look. */
	while (sets < blocks && sets < SETS_FIRST)
		sets *= 2;
	if (!s || world_alloc(&s->world, sets, 16)) {
		sim_steering_free(s);
		return NULL;
	}
	s->sets_max = sets;
	while (s->sets_max < blocks)
		s->sets_max *= 2;
	world_populate(&s->world, policy, options->backends,
		       (__u64)options->blocks * options->block_tokens, options->rate);
	s->world.services[0].affinity = options->affinity;
	s->is_told = options->told;
	s->learn_rates = options->learn_rates;
	for (__u32 k = 0; k < options->backends; k++)
		sim_steering_rate(s, k, options->rate);
	for (__u32 k = 0; k < options->backends && s->is_told; k++) {
		s->told[k] = (struct told){s, k};
		engines[k].cache.changed = on_changed;
		engines[k].cache.ctx = &s->told[k];
	}
	return s;
}

void sim_steering_free(struct sim_steering *s)
{
	if (!s)
		return;
	for (int k = 0; k < KV_MAX_BACKENDS; k++)
		free(s->waiting[k].data);
	world_free_tables(&s->world);
	free(s);
}

static void enter(struct sim_steering *s, double now)
{
	kv_world = &s->world;
	s->world.now = EPOCH_NS + (__u64)(now * 1e9);
}

int sim_steering_choose(struct sim_steering *s, double now, const struct sim_request *request,
			uint32_t exclude, struct sim_choice *ret)
{
	const struct kv_choice *c = &s->st.choice;
	struct kv_query *q = &s->st.query;
	struct kv_dispatch *d;

	if (s->err)
		return s->err;
	enter(s, now);
	q->total = request->tokens;
	q->exclude = exclude;
	q->session = request->session;
	q->n_rungs = request->n_rungs;
	memcpy(q->rungs, request->rungs, request->n_rungs * sizeof(*q->rungs));
	if (kv_steer_decide(&s->st))
		return -ENOENT;
	d = sim_ring_push(&s->waiting[c->backend], sizeof(*d));
	if (!d || make_room_for(s, &s->st) || make_session_room(&s->world))
		return -ENOMEM;
	kv_steer_commit(&s->st, d);
	ret->backend = c->backend;
	ret->believed = c->matched;
	ret->diverted = c->matched < c->best;
	ret->moved = ret->diverted && c->backend == c->intended;
	return 0;
}

void sim_steering_served(struct sim_steering *s, uint32_t backend)
{
	const struct sim_ring *waiting = &s->waiting[backend];

	if (s->is_told)
		forget_untold(sim_ring_at(waiting, waiting->tail - 1, sizeof(struct kv_dispatch)));
}

/* What the agent does with an answer's usage. */
static void judge(struct sim_steering *s, const struct kv_dispatch *d, __u32 found)
{
	struct worth *w = &s->worth[d->backend];

	bool turned =
		worth_add(w, WORTH_USAGE, d->believed, found < d->believed ? found : d->believed);

	s->world.backends[d->backend].discount = w->discount;
	s->doubts += turned && w->down;
	s->backs += turned && !w->down;
}

/* Look-ups of one prompt's rungs wait for memory together, not one after the other. */
static void prefetch(const struct steer_world *w, const struct kv_rung *rungs, __u32 n)
{
	for (__u32 i = 0; i < n; i++) {
		__u64 hash = rungs[i].hash;

		asm volatile(""); /* else gcc 12 takes it for a function that does nothing */
		kv_prefix_fetch(&w->prefixes[kv_prefix_set_of(hash, WORLD_KEY, w->prefix_sets)],
				hash);
	}
}

void sim_steering_answered(struct sim_steering *s, uint32_t backend, double now, uint32_t found)
{
	struct sim_ring *waiting = &s->waiting[backend];
	struct kv_dispatch *d = sim_ring_head(waiting, sizeof(*d));

	enter(s, now);
	kv_dispatch_timed(d);
	kv_dispatch_answered(d);
	kv_dispatch_finished(d);
	judge(s, d, found);
	if (++waiting->head == waiting->tail)
		return;
	d = sim_ring_head(waiting, sizeof(*d));
	prefetch(&s->world, d->query.rungs, d->query.n_rungs);
}

void sim_steering_second(struct sim_steering *s, double now)
{
	enter(s, now);
	if (s->learn_rates)
		rate_look(s->rates, s->world.backends, &s->world.services[0], s->world.now);
}

void sim_steering_rate(struct sim_steering *s, uint32_t backend, double rate)
{
	struct kv_backend *b = &s->world.backends[backend];

	if (!s->learn_rates)
		b->rate = b->rate_set = rate >= 1 ? rate : 1;
	else if (!s->rates[backend].looked_ns)
		b->rate = KV_DEFAULT_RATE;
}

void sim_steering_away(struct sim_steering *s, uint32_t backend, double now)
{
	struct sim_ring *waiting = &s->waiting[backend];

	enter(s, now);
	s->world.backends[backend].state = KV_BACKEND_DOWN;
	for (; waiting->head != waiting->tail; waiting->head++)
		kv_dispatch_failed(sim_ring_head(waiting, sizeof(struct kv_dispatch)));
}

void sim_steering_back(struct sim_steering *s, uint32_t backend)
{
	s->world.backends[backend].epoch++;
	s->world.backends[backend].state = KV_BACKEND_UP;
	s->world.backends[backend].discount = 0;
	worth_forget(&s->worth[backend]);
}

void sim_steering_doubts(const struct sim_steering *s, uint32_t *ret_doubts, uint32_t *ret_backs)
{
	*ret_doubts = s->doubts;
	*ret_backs = s->backs;
}

void sim_steering_agent(struct sim_steering *s)
{
	memset(s->rates, 0, sizeof(s->rates));
}

void sim_steering_prefetch(struct sim_steering *s, const struct sim_request *request)
{
	prefetch(&s->world, request->rungs, request->n_rungs);
}

// SPDX-License-Identifier: BSD-2-Clause
/* One run: a policy at a speed, over a fleet of its own. */
#include <stdlib.h>
#include <time.h>

#include "sim/peers.h"
#include "sim/ring.h"
#include "sim/run.h"
#include "sim/stats.h"
#include "sim/steering.h"

#define SLICES_MAX 100000
#define PREFETCH 2 /* requests ahead */

struct answer {
	double at;
	uint32_t found; /* tokens that were cached */
};

struct sim_run {
	const struct sim_policy *policy;
	const struct sim_options *options;
	double speed;
	struct sim_steering *steering; /* one of the two */
	struct sim_peer *peer;
	struct sim_engine *engines;
	struct sim_ring *queues; /* by backend: of struct answer, one for each of its requests */
	uint32_t *requests;	 /* in flight, by backend */
	double next_answer;
	double end;
	struct sim_times ttft;
	uint64_t blocks, hits, over, under, diverted, moves, dead;
	uint32_t incident; /* the next one */
	double second;	   /* and the next look at rates */
	struct sim_slice *slices;
	uint32_t n_slices;
	double cpu_s;
};

struct sim_run *sim_run_new(const struct sim_policy *policy, double speed,
			    const struct sim_options *options)
{
	struct sim_run *r = calloc(1, sizeof(*r));
	uint32_t n = options->backends;
	int err;

	if (!r)
		return NULL;
	*r = (struct sim_run){
		.policy = policy,
		.options = options,
		.speed = speed,
		.engines = calloc(n, sizeof(*r->engines)),
		.queues = calloc(n, sizeof(*r->queues)),
		.requests = calloc(n, sizeof(*r->requests)),
		.next_answer = 1e300,
	};
	err = sim_times_init(&r->ttft);
	if (!r->engines || !r->queues || !r->requests)
		err = -ENOMEM;
	for (uint32_t k = 0; k < n && !err; k++) {
		err = sim_cache_init(&r->engines[k].cache, options->blocks);
		r->engines[k].rate = options->rate;
	}
	if (!err && policy->peer)
		r->peer = sim_peer_new(policy->peer, options);
	else if (!err)
		r->steering = sim_steering_new(policy->core, options, r->engines);
	if (r->peer || r->steering)
		return r;
	sim_run_free(r);
	return NULL;
}

void sim_run_free(struct sim_run *r)
{
	if (!r)
		return;
	for (uint32_t k = 0; k < r->options->backends; k++) {
		if (r->engines)
			sim_cache_free(&r->engines[k].cache);
		if (r->queues)
			free(r->queues[k].data);
	}
	sim_steering_free(r->steering);
	sim_peer_free(r->peer);
	sim_times_free(&r->ttft);
	free(r->engines);
	free(r->queues);
	free(r->requests);
	free(r->slices);
	free(r);
}

/* All answers up to now. */
static void answer(struct sim_run *r, double now)
{
	const struct answer *a;

	if (r->next_answer > now)
		return;
	r->next_answer = 1e300;
	for (uint32_t k = 0; k < r->options->backends; k++) {
		struct sim_ring *q = &r->queues[k];

		for (; q->head != q->tail; q->head++) {
			a = sim_ring_head(q, sizeof(*a));
			if (a->at > now) {
				r->next_answer = a->at < r->next_answer ? a->at : r->next_answer;
				break;
			}
			r->requests[k]--;
			if (r->steering)
				sim_steering_answered(r->steering, k, a->at, a->found);
		}
	}
}

static void away(struct sim_run *r, uint32_t k, double now)
{
	struct sim_ring *q = &r->queues[k];

	if (r->steering)
		sim_steering_away(r->steering, k, now);
	r->requests[k] -= q->tail - q->head;
	q->head = q->tail;
	sim_cache_clear(&r->engines[k].cache);
	r->engines[k].cold = true;
	r->engines[k].free_at = now + SIM_RESTART_S;
}

/* Nobody is told. */
static void caches(struct sim_run *r, uint32_t engine, bool off)
{
	for (uint32_t k = 0; k < r->options->backends; k++) {
		if (engine != SIM_EVERY && engine != k)
			continue;
		sim_cache_clear(&r->engines[k].cache);
		r->engines[k].off = off;
	}
}

static void happen(struct sim_run *r, const struct sim_incident *i)
{
	struct sim_engine *e = &r->engines[i->engine == SIM_EVERY ? 0 : i->engine];

	if (i->kind == SIM_SLOW) {
		e->rate /= i->factor;
		if (r->steering)
			sim_steering_rate(r->steering, i->engine, e->rate);
	} else if (i->kind == SIM_RESTART) {
		away(r, i->engine, i->at_s);
	} else if (r->steering && i->kind == SIM_RESTARTED) {
		sim_steering_back(r->steering, i->engine);
	} else if (r->steering && i->kind == SIM_AGENT_RESTART) {
		sim_steering_agent(r->steering);
	} else if (i->kind == SIM_CACHE_OFF || i->kind == SIM_CACHE_ON) {
		caches(r, i->engine, i->kind == SIM_CACHE_OFF);
	}
}

/* All that happens up to now: answers, incidents, looks at rates. */
static void pass_time(struct sim_run *r, double now)
{
	const struct sim_incidents *incidents = &r->options->incidents;

	for (;;) {
		const struct sim_incident *i = &incidents->all[r->incident];
		double at = r->incident < incidents->n ? i->at_s : 1e300;

		if (r->options->learn_rates && r->second <= now && r->second < at) {
			answer(r, r->second);
			if (r->steering)
				sim_steering_second(r->steering, r->second);
			r->second += 1;
		} else if (at <= now) {
			answer(r, at);
			happen(r, i);
			r->incident++;
		} else {
			break;
		}
	}
	answer(r, now);
}

static int choose(struct sim_run *r, double now, const struct sim_request *request,
		  struct sim_choice *ret)
{
	if (r->steering)
		return sim_steering_choose(r->steering, now, request, ret);
	sim_peer_choose(r->peer, now, request, r->engines, r->requests, ret);
	return 0;
}

/* The engine's part: what is cached there, and the prefill of the rest. */
static int serve(struct sim_run *r, double now, const struct sim_request *request, uint32_t k,
		 uint32_t *ret_held)
{
	struct sim_engine *e = &r->engines[k];
	struct answer *a = sim_ring_push(&r->queues[k], sizeof(*a));
	uint64_t held, cached;
	double work = 0;

	if (!a)
		return -ENOMEM;
	held = e->off ? 0 : sim_cache_serve(&e->cache, request->ids, request->n_ids);
	cached = held * r->options->block_tokens;
	if (cached < request->tokens)
		work = (request->tokens - cached) / e->rate;
	if (r->steering)
		sim_steering_served(r->steering, k);
	e->free_at = (e->free_at > now ? e->free_at : now) + work;
	e->work += work;
	*a = (struct answer){e->free_at, cached};
	r->requests[k]++;
	if (e->free_at < r->next_answer)
		r->next_answer = e->free_at;
	if (e->free_at > r->end)
		r->end = e->free_at;
	*ret_held = held;
	return 0;
}

static int add_to_slice(struct sim_run *r, double now, uint64_t blocks, uint64_t hits, double ttft)
{
	double which = r->options->slice_s > 0 ? now / r->options->slice_s : 0;
	uint32_t at = which < SLICES_MAX ? which : SLICES_MAX - 1, n = at + 1;
	struct sim_slice *grown;

	if (r->options->slice_s <= 0)
		return 0;
	if (n > r->n_slices) {
		grown = reallocarray(r->slices, n, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memset(grown + r->n_slices, 0, (n - r->n_slices) * sizeof(*grown));
		r->slices = grown;
		r->n_slices = n;
	}
	r->slices[at].requests++;
	r->slices[at].blocks += blocks;
	r->slices[at].hits += hits;
	r->slices[at].ttft_sum += ttft;
	return 0;
}

/* The first request that counts: what was computed before does not. */
static void begin(struct sim_run *r)
{
	for (uint32_t k = 0; k < r->options->backends; k++)
		r->engines[k].work = 0;
}

static int run_one(struct sim_run *r, const struct sim_request *request)
{
	double now = request->at_s / r->speed;
	struct sim_choice c = {0};
	uint32_t held, believed;
	struct sim_engine *e;
	int err;

	pass_time(r, now);
	if (!r->ttft.n && now >= r->options->warmup_s)
		begin(r);
	err = choose(r, now, request, &c) ?: serve(r, now, request, c.backend, &held);
	if (err)
		return err;
	e = &r->engines[c.backend];
	if (now < r->options->warmup_s)
		return add_to_slice(r, now, request->n_ids, held, e->free_at - now);
	sim_times_add(&r->ttft, e->free_at - now);
	believed = c.believed / r->options->block_tokens;
	r->blocks += request->n_ids;
	r->hits += held;
	r->over += believed > held ? believed - held : 0;
	r->under += held > believed ? held - believed : 0;
	r->diverted += c.diverted;
	r->moves += c.moved;
	e->cold = e->cold && !e->cache.evicted;
	/* nothing else can have taken it yet */
	r->dead += e->cold && believed > held;
	return add_to_slice(r, now, request->n_ids, held, e->free_at - now);
}

static double cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int sim_run_requests(struct sim_run *r, const struct sim_request *requests, unsigned int n)
{
	double start = cpu_now();
	int err = 0;

	for (unsigned int i = 0; i < n && !err; i++) {
		if (r->steering && i + PREFETCH < n)
			sim_steering_prefetch(r->steering, &requests[i + PREFETCH]);
		err = run_one(r, &requests[i]);
	}
	r->cpu_s += cpu_now() - start;
	return err;
}

void sim_run_end(struct sim_run *r, struct sim_result *ret)
{
	double work = 0, most = 0, blocks = r->blocks ? r->blocks : 1;
	uint32_t n = r->options->backends, doubts = 0, backs = 0;

	answer(r, 1e299);
	for (uint32_t k = 0; k < n; k++) {
		work += r->engines[k].work;
		most = r->engines[k].work > most ? r->engines[k].work : most;
	}
	if (r->steering)
		sim_steering_doubts(r->steering, &doubts, &backs);
	*ret = (struct sim_result){
		.policy = r->policy,
		.state = r->peer	    ? sim_peer_state(r->peer)
			 : r->options->told ? "events"
					    : "learned",
		.speed = r->speed,
		.requests = r->ttft.n,
		.seconds = r->end,
		.hit_rate = r->hits / blocks,
		.ttft_mean = r->ttft.n ? r->ttft.sum / r->ttft.n : 0,
		.ttft_p50 = sim_times_quantile(&r->ttft, 0.5),
		.ttft_p90 = sim_times_quantile(&r->ttft, 0.9),
		.ttft_p99 = sim_times_quantile(&r->ttft, 0.99),
		.busiest_over_mean = work > 0 ? most * n / work : 0,
		.over = r->over / blocks,
		.under = r->under / blocks,
		.dead = r->dead,
		.slices = r->slices,
		.n_slices = r->n_slices,
		.diverted = r->diverted,
		.moves = r->moves,
		.doubts = doubts,
		.backs = backs,
		.decisions_per_s = r->cpu_s > 0 ? r->ttft.n / r->cpu_s : 0,
	};
}

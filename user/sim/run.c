// SPDX-License-Identifier: BSD-2-Clause
/* One run: a policy at a speed, over a fleet of its own. */
#include <stdlib.h>
#include <time.h>

#include "sim/run_private.h"

#define SLICES_MAX 100000
#define PREFETCH 2 /* requests ahead */

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
	for (uint32_t i = 0; i < options->incidents.n; i++)
		r->restarts += options->incidents.all[i].kind == SIM_RESTART;
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

static void free_queue(struct sim_ring *q)
{
	for (; q->head != q->tail; q->head++)
		free(((struct sim_flight *)sim_ring_head(q, sizeof(struct sim_flight)))->kept);
	free(q->data);
}

void sim_run_free(struct sim_run *r)
{
	if (!r)
		return;
	for (uint32_t k = 0; k < r->options->backends; k++) {
		if (r->engines)
			sim_cache_free(&r->engines[k].cache);
		if (r->queues)
			free_queue(&r->queues[k]);
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

static int choose(struct sim_run *r, double now, const struct sim_request *request,
		  uint32_t exclude, struct sim_choice *ret)
{
	if (r->steering)
		return sim_steering_choose(r->steering, now, request, exclude, ret);
	sim_peer_choose(r->peer, now, request, r->engines, r->requests, ret);
	return 0;
}

/* ---- sums ----------------------------------------------------------------------------- */

static int slice_of(struct sim_run *r, double arrived, struct sim_slice **ret)
{
	double which = arrived / r->options->slice_s;
	uint32_t at = which < SLICES_MAX ? which : SLICES_MAX - 1, n = at + 1;
	struct sim_slice *grown;

	if (n > r->n_slices) {
		grown = reallocarray(r->slices, n, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memset(grown + r->n_slices, 0, (n - r->n_slices) * sizeof(*grown));
		r->slices = grown;
		r->n_slices = n;
	}
	*ret = &r->slices[at];
	return 0;
}

/* times: 1, or -1 to take it back */
static int count(struct sim_run *r, double arrived, const struct sim_outcome *o, int times)
{
	uint64_t n = times;
	struct sim_slice *slice;

	if (arrived >= r->options->warmup_s) {
		sim_times_add(&r->ttft, o->ttft, times);
		r->blocks += n * o->blocks;
		r->hits += n * o->held;
		r->over += n * (o->believed > o->held ? o->believed - o->held : 0);
		r->under += n * (o->held > o->believed ? o->held - o->believed : 0);
		r->diverted += n * o->diverted;
		r->moves += n * o->moved;
		r->dead += n * o->dead;
	}
	if (r->options->slice_s <= 0)
		return 0;
	if (slice_of(r, arrived, &slice))
		return -ENOMEM;
	slice->requests += n;
	slice->blocks += n * o->blocks;
	slice->hits += n * o->held;
	slice->ttft_sum += times * o->ttft;
	return 0;
}

void sim_run_uncount(struct sim_run *r, const struct sim_kept *kept)
{
	count(r, kept->request.at_s / r->speed, &kept->outcome, -1);
}

/* ---- one request ---------------------------------------------------------------------- */

/* Its own copy, rungs and ids behind it. */
static struct sim_kept *keep(const struct sim_request *request, const struct sim_outcome *o,
			     uint32_t attempts)
{
	size_t rungs = request->n_rungs * sizeof(*request->rungs);
	size_t ids = request->n_ids * sizeof(*request->ids);
	struct sim_kept *kept = malloc(sizeof(*kept) + rungs + ids);

	if (!kept)
		return NULL;
	*kept = (struct sim_kept){.request = *request, .outcome = *o, .attempts = attempts};
	kept->request.rungs = kept->rungs;
	kept->request.ids = (uint64_t *)(kept->rungs + request->n_rungs);
	memcpy(kept->rungs, request->rungs, rungs);
	memcpy(kept->rungs + request->n_rungs, request->ids, ids);
	return kept;
}

/* The engine's part: what is cached there, and the prefill of the rest. */
static struct sim_flight *serve(struct sim_run *r, double now, const struct sim_request *request,
				uint32_t k, uint32_t *ret_held)
{
	struct sim_engine *e = &r->engines[k];
	struct sim_flight *f = sim_ring_push(&r->queues[k], sizeof(*f));
	uint64_t held, cached;
	double work = 0;

	if (!f)
		return NULL;
	held = e->off ? 0 : sim_cache_serve(&e->cache, request->ids, request->n_ids);
	cached = held * r->options->block_tokens;
	if (cached < request->tokens)
		work = (request->tokens - cached) / e->rate;
	if (r->steering)
		sim_steering_served(r->steering, k);
	e->free_at = (e->free_at > now ? e->free_at : now) + work;
	e->work += work;
	e->cold = e->cold && !e->cache.evicted;
	*f = (struct sim_flight){.done = e->free_at, .found = cached};
	r->requests[k]++;
	if (e->free_at < r->next_answer)
		r->next_answer = e->free_at;
	*ret_held = held;
	return f;
}

int sim_run_send(struct sim_run *r, double now, const struct sim_request *request, uint32_t exclude,
		 uint32_t attempts)
{
	double arrived = request->at_s / r->speed;
	struct sim_choice c = {0};
	struct sim_outcome o;
	struct sim_flight *f;
	uint32_t held;
	int err = choose(r, now, request, exclude, &c);

	r->decisions++;
	if (err == -ENOENT) { /* all are away */
		sim_run_fail(r, request);
		return 0;
	}
	if (err)
		return err;
	f = serve(r, now, request, c.backend, &held);
	if (!f)
		return -ENOMEM;
	o = (struct sim_outcome){
		.ttft = f->done - arrived,
		.blocks = request->n_ids,
		.held = held,
		.believed = c.believed / r->options->block_tokens,
		.diverted = c.diverted,
		.moved = c.moved,
	};
	/* nothing else can have taken it yet */
	o.dead = r->engines[c.backend].cold && o.believed > held;
	if (r->restarts && !(f->kept = keep(request, &o, attempts)))
		return -ENOMEM;
	return count(r, arrived, &o, 1);
}

void sim_run_fail(struct sim_run *r, const struct sim_request *request)
{
	r->failed += request->at_s / r->speed >= r->options->warmup_s;
}

/* The first request that counts: what was computed before does not. */
static void begin(struct sim_run *r)
{
	for (uint32_t k = 0; k < r->options->backends; k++)
		r->engines[k].work = 0;
	r->begun = true;
}

static int run_one(struct sim_run *r, const struct sim_request *request)
{
	double now = request->at_s / r->speed;
	int err = sim_run_pass_time(r, now);

	if (!r->begun && now >= r->options->warmup_s)
		begin(r);
	return err ?: sim_run_send(r, now, request, KV_NONE, 1);
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

	sim_run_answer(r, 1e299);
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
		.requests = r->ttft.n + r->failed,
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
		.retried = r->retried,
		.failed = r->failed,
		.slices = r->slices,
		.n_slices = r->n_slices,
		.diverted = r->diverted,
		.moves = r->moves,
		.doubts = doubts,
		.backs = backs,
		.decisions_per_s = r->cpu_s > 0 ? r->decisions / r->cpu_s : 0,
	};
}

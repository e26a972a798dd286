// SPDX-License-Identifier: BSD-2-Clause
#include "sim/peers.h"

#include <stdlib.h>
#include <string.h>

#include "sim/random.h"

/* What a router that keeps a picture of its own believes in, against the cache's true size: it
 * hears of no eviction. */
#define PICTURE 4

/* What a rule sees when a request comes. */
struct sight {
	uint32_t n;		/* backends */
	uint32_t blocks;	/* of the request */
	uint64_t key;		/* of its first blocks */
	const double *block_s;	/* of prefill, for one block */
	const double *wait;	/* seconds queued, as of the last look */
	const uint32_t *got;	/* leading blocks, as far as is known */
	const uint32_t *flying; /* requests in flight */
	const uint32_t *held;	/* blocks in all, as far as is known */
	__u64 *random;
};

struct sim_peer_rule {
	uint32_t (*choose)(const struct sight *s);
	bool pictures; /* it knows what it has sent, not what the caches hold */
};

struct sim_peer {
	const struct sim_peer_rule *rule;
	const struct sim_options *options;
	struct sim_cache *pictures; /* by backend, if the rule wants them */
	double looked_at;
	__u64 random;
	double wait[KV_MAX_BACKENDS], block_s[KV_MAX_BACKENDS];
	uint32_t got[KV_MAX_BACKENDS], held[KV_MAX_BACKENDS];
};

#define KEY_BLOCKS 4 /* that a prefix hash covers */

static uint32_t draw(const struct sight *s)
{
	return sim_random(s->random) >> 33;
}

/* The least of the backends considered, by two keys; chance decides among equals. KV_NONE if none
 * was. */
struct least {
	double first, second;
	uint32_t k, equals;
};

static const struct least nothing_yet = {.k = KV_NONE};

static void consider(const struct sight *s, struct least *l, uint32_t k, double first,
		     double second)
{
	if (l->k != KV_NONE && first == l->first && second == l->second) {
		if (draw(s) % ++l->equals == 0)
			l->k = k;
	} else if (l->k == KV_NONE || first < l->first ||
		   (first == l->first && second < l->second)) {
		*l = (struct least){first, second, k, 1};
	}
}

static double uncached(const struct sight *s, uint32_t k)
{
	return (s->blocks - s->got[k]) * s->block_s[k];
}

/* ---- llm-d: among those that hold most of it the least token load ---------------------- */

#define LLM_D_KEEP 0.8 /* of the prompt */
/* Seconds of queue that holders may have over the idlest of the others. */
#define LLM_D_RELEASE 14

static uint32_t choose_llm_d(const struct sight *s)
{
	double cold = 1e300, warm = 1e300, keep = LLM_D_KEEP * s->blocks;
	struct least l = nothing_yet;
	bool all = true, holders;

	for (uint32_t k = 0; k < s->n; k++) {
		if (s->got[k] < keep) {
			all = false;
			cold = s->wait[k] < cold ? s->wait[k] : cold;
		} else {
			warm = s->wait[k] < warm ? s->wait[k] : warm;
		}
	}
	holders = warm < 1e300 && (all || warm - cold <= LLM_D_RELEASE);
	for (uint32_t k = 0; k < s->n; k++)
		if (!holders || s->got[k] >= keep)
			consider(s, &l, k, s->wait[k] + uncached(s, k), -(double)s->got[k]);
	return l.k;
}

const struct sim_peer_rule sim_peer_llm_d = {.choose = choose_llm_d};

/* ---- Dynamo: the least of queue and own prefill ----------------------------------------- */

static uint32_t choose_dynamo(const struct sight *s)
{
	struct least l = nothing_yet;

	for (uint32_t k = 0; k < s->n; k++)
		consider(s, &l, k, s->wait[k] + uncached(s, k), 0);
	return l.k;
}

const struct sim_peer_rule sim_peer_dynamo = {.choose = choose_dynamo};

/* ---- SGLang's cache_aware: the best match, unless requests are out of balance ------------ */

#define SGLANG_KEEP 0.3	    /* a match shorter than this share counts for nothing */
#define SGLANG_ABSOLUTE 64  /* requests in flight, most over least … */
#define SGLANG_RELATIVE 1.5 /* … and times least: both make it out of balance */

static uint32_t choose_sglang(const struct sight *s)
{
	uint32_t most = 0, fewest = UINT32_MAX;
	struct least shortest = nothing_yet, match = nothing_yet, smallest = nothing_yet;

	for (uint32_t k = 0; k < s->n; k++) {
		most = s->flying[k] > most ? s->flying[k] : most;
		fewest = s->flying[k] < fewest ? s->flying[k] : fewest;
		consider(s, &shortest, k, s->flying[k], 0);
		consider(s, &match, k, -(double)s->got[k], 0);
		consider(s, &smallest, k, s->held[k], 0);
	}
	if (most - fewest > SGLANG_ABSOLUTE && most > SGLANG_RELATIVE * fewest)
		return shortest.k;
	return s->got[match.k] > SGLANG_KEEP * s->blocks ? match.k : smallest.k;
}

const struct sim_peer_rule sim_peer_sglang = {.choose = choose_sglang, .pictures = true};

/* ---- the best match within a bound of load ---------------------------------------------- */

/* Seconds of queue up to which a backend is not overloaded. */
static double bound(const struct sight *s)
{
	double mean = 0;

	for (uint32_t k = 0; k < s->n; k++)
		mean += s->wait[k] / s->n;
	return mean * 0.25 > 1 ? mean * 1.25 : mean + 1;
}

static uint32_t choose_greedy(const struct sight *s)
{
	struct least l = nothing_yet;
	double limit = bound(s);

	for (uint32_t k = 0; k < s->n; k++)
		if (s->wait[k] <= limit)
			consider(s, &l, k, -(double)s->got[k], s->wait[k]);
	return l.k;
}

const struct sim_peer_rule sim_peer_greedy = {.choose = choose_greedy, .pictures = true};

/* ---- hashing the first blocks, by highest random weight ---------------------------------- */

static uint32_t choose_hash(const struct sight *s, double limit)
{
	uint32_t pick = KV_NONE, home = KV_NONE;
	uint64_t best = 0, best_of_all = 0;

	for (uint32_t k = 0; k < s->n; k++) {
		uint64_t weight = kv_mix(s->key ^ kv_mix(k + 1));

		if (home == KV_NONE || weight > best_of_all) {
			best_of_all = weight;
			home = k;
		}
		if (s->wait[k] <= limit && (pick == KV_NONE || weight > best)) {
			best = weight;
			pick = k;
		}
	}
	return pick == KV_NONE ? home : pick;
}

static uint32_t choose_prefix_hash(const struct sight *s)
{
	return choose_hash(s, 1e300);
}

static uint32_t choose_prefix_hash_bounded(const struct sight *s)
{
	return choose_hash(s, bound(s));
}

const struct sim_peer_rule sim_peer_prefix_hash = {.choose = choose_prefix_hash};
const struct sim_peer_rule sim_peer_prefix_hash_bounded = {.choose = choose_prefix_hash_bounded};

/* ---- the router -------------------------------------------------------------------------- */

struct sim_peer *sim_peer_new(const struct sim_peer_rule *rule, const struct sim_options *options)
{
	struct sim_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->rule = rule;
	p->options = options;
	p->random = 1;
	p->looked_at = -1e300;
	if (!rule->pictures)
		return p;
	p->pictures = calloc(options->backends, sizeof(*p->pictures));
	for (uint32_t k = 0; p->pictures && k < options->backends; k++) {
		if (sim_cache_init(&p->pictures[k], PICTURE * options->blocks)) {
			sim_peer_free(p);
			return NULL;
		}
	}
	if (p->pictures)
		return p;
	free(p);
	return NULL;
}

void sim_peer_free(struct sim_peer *p)
{
	if (!p)
		return;
	for (uint32_t k = 0; p->pictures && k < p->options->backends; k++)
		sim_cache_free(&p->pictures[k]);
	free(p->pictures);
	free(p);
}

const char *sim_peer_state(const struct sim_peer *p)
{
	return p->pictures ? "learned" : "exact";
}

void sim_peer_choose(struct sim_peer *p, double now, const struct sim_request *request,
		     const struct sim_engine *engines, const uint32_t *requests,
		     struct sim_choice *ret)
{
	uint32_t n = p->options->backends, n_key = request->n_ids, best = 0;
	struct sight s = {
		.n = n,
		.blocks = request->n_ids,
		.block_s = p->block_s,
		.wait = p->wait,
		.got = p->got,
		.flying = requests,
		.held = p->held,
		.random = &p->random,
	};
	bool look = now - p->looked_at >= p->options->metrics_delay;

	if (n_key > KEY_BLOCKS)
		n_key = KEY_BLOCKS;
	s.key = n_key ? sim_block_hash(request->ids[n_key - 1]) : 0;
	for (uint32_t k = 0; k < n; k++) {
		const struct sim_cache *c = p->pictures ? &p->pictures[k] : &engines[k].cache;

		p->got[k] = sim_cache_match(c, request->ids, request->n_ids);
		p->held[k] = c->n;
		p->block_s[k] = p->options->block_tokens / engines[k].rate;
		if (p->got[k] > best)
			best = p->got[k];
		if (look)
			p->wait[k] = sim_engine_wait(&engines[k], now);
	}
	if (look)
		p->looked_at = now;
	ret->backend = p->rule->choose(&s);
	if (p->pictures)
		sim_cache_serve(&p->pictures[ret->backend], request->ids, request->n_ids);
	ret->believed = p->got[ret->backend] * p->options->block_tokens;
	ret->diverted = ret->moved = p->got[ret->backend] < best;
}

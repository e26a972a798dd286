// SPDX-License-Identifier: BSD-2-Clause
#include "common/rate.h"

#include <math.h>
#include <stdlib.h>

#include "common/config.h"

#define BUSY_S 10   /* of its own work that an engine is judged by, decaying */
#define SEEN_S 300  /* for which that holds although it is not seen */
#define FIRST_S 0.1 /* of work: what the belief in the others' rate weighs */
/* A look may say so many times more or less than what was known; if it was no mishap the next says
 * so again. */
#define STEP 3
#define RATE_MAX 1e9
/* Equal engines never show quite the same. The one ahead by chance would get all that no cache has
 * a claim to, and the caches of the others would stand empty. */
#define ALIKE 0.75

static bool is_learned(const struct rate *r)
{
	return r->seconds_s > FIRST_S * FIRST_S;
}

static void begin(struct rate *r, const struct kv_backend *b, uint64_t now_ns)
{
	double rate = b->rate_set || !b->rate ? KV_DEFAULT_RATE : b->rate;

	*r = (struct rate){
		.tokens = kv_read_once(b->prefill_tokens),
		.ns = kv_read_once(b->prefill_ns),
		.looked_ns = now_ns,
		.rate = rate,
	};
	if (r->tokens && !b->rate_set) { /* an agent before has learned it: as by a second's look */
		r->tokens_s = rate;
		r->seconds_s = 1;
	}
}

static void take(struct rate *r, const struct kv_backend *b, uint64_t now_ns)
{
	uint64_t tokens = kv_read_once(b->prefill_tokens), ns = kv_read_once(b->prefill_ns);
	double x = tokens - r->tokens, y = (ns - r->ns) / 1e9, keep, weight;

	if (!r->looked_ns || tokens < r->tokens || ns < r->ns) { /* or it was another's entry */
		begin(r, b, now_ns);
		return;
	}
	weight = fmin(x / r->rate, y);
	y = fmin(fmax(y, x / r->rate / STEP), x / r->rate * STEP);
	keep = exp(-y / BUSY_S - (now_ns - r->looked_ns) / 1e9 / SEEN_S);
	r->tokens_s = r->tokens_s * keep + weight * x;
	r->seconds_s = r->seconds_s * keep + weight * y;
	r->tokens = tokens;
	r->ns = ns;
	r->looked_ns = now_ns;
}

struct place {
	uint32_t id;
	double rate;
};

static int slower(const void *a, const void *b)
{
	double x = ((const struct place *)a)->rate, y = ((const struct place *)b)->rate;

	return (x < y) - (x > y);
}

/* Where those end that are as fast as the first; and their mean. */
static uint32_t alike(const struct place *sorted, uint32_t from, uint32_t n, double *ret_rate)
{
	double sum = 0;
	uint32_t to = from;

	while (to < n && sorted[to].rate >= sorted[from].rate * ALIKE)
		sum += sorted[to++].rate;
	*ret_rate = sum / (to - from);
	return to;
}

void rate_look(struct rate *rates, struct kv_backend *backends, const struct kv_service *service,
	       uint64_t now_ns)
{
	const double first = FIRST_S * FIRST_S; /* as by a look */
	struct place sorted[KV_MAX_BACKENDS];
	double sum = 0, others, rate;
	uint32_t n = 0;

	for (uint32_t i = 0; i < service->n_backends; i++) {
		uint32_t id = service->backends[i];

		take(&rates[id], &backends[id], now_ns);
		if (!is_learned(&rates[id]))
			continue;
		sum += rates[id].tokens_s / rates[id].seconds_s;
		n++;
	}
	others = n ? sum / n : KV_DEFAULT_RATE;
	n = 0;
	for (uint32_t i = 0; i < service->n_backends; i++) {
		struct rate *r = &rates[service->backends[i]];

		r->rate = (r->tokens_s + others * first) / (r->seconds_s + first);
		r->rate = fmin(fmax(r->rate, 1), RATE_MAX);
		if (!backends[service->backends[i]].rate_set)
			sorted[n++] = (struct place){service->backends[i], r->rate};
	}
	qsort(sorted, n, sizeof(*sorted), slower);
	for (uint32_t from = 0, to; from < n; from = to) {
		to = alike(sorted, from, n, &rate);
		while (from < to)
			kv_write_once(backends[sorted[from++].id].rate, (__u64)rate);
	}
}

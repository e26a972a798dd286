// SPDX-License-Identifier: BSD-2-Clause
/* Families of backends: one table a source of values, a family a row. */
#include "engines/page_backends.h"

#include <stdio.h>

#define SECONDS(ns) ((ns) / 1e9)

#define OF(b, ...) LABELS({"service", (b)->service}, {"backend", (b)->name}, ##__VA_ARGS__)

struct row {
	const char *name;
	const char *type;
	const char *help;
	/* false: it has none */
	bool (*value)(const struct view *v, const struct view_backend *b, double *ret);
};

#define FROM_MAP(field)                                                                            \
	static bool map_##field(const struct view *v, const struct view_backend *b, double *ret)   \
	{                                                                                          \
		(void)v;                                                                           \
		*ret = b->map ? b->map->field : 0;                                                 \
		return b->map;                                                                     \
	}
FROM_MAP(inflight_requests)
FROM_MAP(inflight_tokens)
FROM_MAP(requests)
FROM_MAP(prompt_tokens)
FROM_MAP(matched_tokens)
FROM_MAP(predicted_tokens)
FROM_MAP(failures)
FROM_MAP(capacity)
FROM_MAP(rate)
FROM_MAP(clock)

/* What an engine said too long ago is not shown: it would be read as its state of now. */
static const struct engine_load *fresh(const struct view *v, const struct view_backend *b,
				       uint32_t has)
{
	const struct engine_report *r = b->report;

	if (!r || report_age(r, v->now_ns, b->stale_ns) != REPORT_FRESH || !(r->load.has & has))
		return NULL;
	return &r->load;
}

#define FROM_LOAD(field, has)                                                                      \
	static bool load_##field(const struct view *v, const struct view_backend *b, double *ret)  \
	{                                                                                          \
		const struct engine_load *load = fresh(v, b, has);                                 \
                                                                                                   \
		*ret = load ? load->field : 0;                                                     \
		return load;                                                                       \
	}
FROM_LOAD(running, LOAD_RUNNING)
FROM_LOAD(waiting, LOAD_WAITING)
FROM_LOAD(cache_use, LOAD_CACHE_USE)
FROM_LOAD(block_size, LOAD_BLOCK_SIZE)
FROM_LOAD(capacity, LOAD_CAPACITY)
FROM_LOAD(queries, LOAD_QUERIES)
FROM_LOAD(hits, LOAD_HITS)

#define FROM_REPORT(field)                                                                         \
	static bool report_##field(const struct view *v, const struct view_backend *b,             \
				   double *ret)                                                    \
	{                                                                                          \
		(void)v;                                                                           \
		*ret = b->report ? b->report->field : 0;                                           \
		return b->report;                                                                  \
	}
FROM_REPORT(scrapes)
FROM_REPORT(failures)

static bool affinity(const struct view *v, const struct view_backend *b, double *ret)
{
	(void)v;
	*ret = (KV_DISCOUNT_ALL - b->discount) / (double)KV_DISCOUNT_ALL;
	return true;
}

static bool affinity_ratio(const struct view *v, const struct view_backend *b, double *ret)
{
	(void)v;
	*ret = b->map && b->map->worth_predicted
		       ? (double)b->map->worth_found / b->map->worth_predicted
		       : 0;
	return b->map && b->map->worth_predicted;
}

static bool age(const struct view *v, const struct view_backend *b, double *ret)
{
	bool any = b->report && b->report->at_ns;

	*ret = any ? SECONDS(v->now_ns - b->report->at_ns) : 0;
	return any;
}

static bool weight(const struct view *v, const struct view_backend *b, double *ret)
{
	(void)v;
	*ret = (double)b->weight / HEALTH_FULL;
	return true;
}

static bool restarts(const struct view *v, const struct view_backend *b, double *ret)
{
	(void)v;
	*ret = b->restarts;
	return true;
}

static bool ratio(const struct view *v, const struct view_backend *b, double *ret)
{
	(void)v;
	*ret = b->verdict.ratio;
	return b->proof && b->verdict.cause != PROOF_TOO_LITTLE;
}

#define BACKEND(x) "kvsteer_backend_" x
#define ENGINE(x) "kvsteer_engine_" x

static const struct row rows[] = {
	{BACKEND("inflight_requests"), "gauge", "requests dispatched and not finished",
	 map_inflight_requests},
	{BACKEND("inflight_tokens"), "gauge", "uncached prompt tokens dispatched and not answered",
	 map_inflight_tokens},
	{BACKEND("requests_total"), "counter", "requests dispatched", map_requests},
	{BACKEND("prompt_tokens_total"), "counter", "prompt tokens dispatched", map_prompt_tokens},
	{BACKEND("matched_tokens_total"), "counter", "of these, tokens counted on to be cached",
	 map_matched_tokens},
	{BACKEND("predicted_tokens_total"), "counter",
	 "tokens believed to be cached, counted on or not, of answered requests",
	 map_predicted_tokens},
	{BACKEND("failures_total"), "counter", "requests that failed before their answer",
	 map_failures},
	{BACKEND("capacity_tokens"), "gauge", "tokens that its cache is reckoned with",
	 map_capacity},
	{BACKEND("rate_tokens_per_second"), "gauge", "prefill that it is reckoned with", map_rate},
	{BACKEND("clock_tokens_total"), "counter", "tokens that entered the front of its cache",
	 map_clock},
	{BACKEND("weight_ratio"), "gauge",
	 "share of its usual load: below 1 while it starts slowly", weight},
	{BACKEND("restarts_total"), "counter", "times that its cache was lost by a restart",
	 restarts},
	{BACKEND("prediction_ratio"), "gauge",
	 "tokens found in its cache over tokens predicted, in the last minute", ratio},
	{BACKEND("affinity"), "gauge",
	 "share that counts of what it is believed to hold: 1 is all of it", affinity},
	{BACKEND("affinity_worth_ratio"), "gauge",
	 "tokens found in its cache over tokens predicted, as affinity is judged by",
	 affinity_ratio},
	{ENGINE("running_requests"), "gauge", "requests that it runs, by its own metrics",
	 load_running},
	{ENGINE("waiting_requests"), "gauge", "requests that wait there, by its own metrics",
	 load_waiting},
	{ENGINE("cache_usage_ratio"), "gauge", "share of its KV cache in use, by its own metrics",
	 load_cache_use},
	{ENGINE("block_size_tokens"), "gauge", "tokens of one of its blocks", load_block_size},
	{ENGINE("capacity_tokens"), "gauge", "tokens of its KV cache", load_capacity},
	{ENGINE("prefix_cache_queries_tokens_total"), "counter",
	 "tokens that it looked up in its prefix cache", load_queries},
	{ENGINE("prefix_cache_hits_tokens_total"), "counter", "tokens that it found there",
	 load_hits},
	{ENGINE("report_age_seconds"), "gauge", "age of its last readable metrics page", age},
	{ENGINE("scrapes_total"), "counter", "metrics pages asked for", report_scrapes},
	{ENGINE("scrape_failures_total"), "counter", "of these, not answered or not readable",
	 report_failures},
};

static void table(struct expose *e, const struct view *v)
{
	double value;

	for (size_t r = 0; r < sizeof(rows) / sizeof(*rows); r++) {
		expose_family(e, rows[r].name, rows[r].type, rows[r].help);
		for (size_t i = 0; i < v->n_backends; i++)
			if (!rows[r].value(v, &v->backends[i], &value))
				continue;
			else if (rows[r].type[0] == 'c')
				expose_count(e, rows[r].name, OF(&v->backends[i]), value);
			else
				expose_number(e, rows[r].name, OF(&v->backends[i]), value);
	}
}

static void states(struct expose *e, const struct view *v)
{
	expose_family(e, BACKEND("info"), "gauge", "a backend's address and kind of engine");
	for (size_t i = 0; i < v->n_backends; i++) {
		const struct view_backend *b = &v->backends[i];
		bool known = b->report && b->report->at_ns;

		expose_count(e, BACKEND("info"),
			     OF(b, {"address", b->address},
				{"engine", known ? engine_kind_name(b->report->load.kind) : NULL}),
			     1);
	}
	expose_family(e, BACKEND("state"), "gauge", "1 for the state that a backend is in");
	for (size_t i = 0; i < v->n_backends; i++)
		for (int s = HEALTH_NEW; s <= HEALTH_TRIAL; s++)
			expose_count(e, BACKEND("state"),
				     OF(&v->backends[i], {"state", health_state_name(s)}),
				     v->backends[i].state == (enum health_state)s);
	expose_family(e, BACKEND("draining"), "gauge", "1 while it gets no new request");
	for (size_t i = 0; i < v->n_backends; i++)
		expose_count(e, BACKEND("draining"), OF(&v->backends[i]), v->backends[i].draining);
}

static void alarms(struct expose *e, const struct view *v)
{
	expose_family(e, BACKEND("prediction_alarm"), "gauge",
		      "1 while predicted and found tokens part, by likely cause");
	for (size_t i = 0; i < v->n_backends; i++) {
		const struct view_backend *b = &v->backends[i];

		for (int c = PROOF_BLOCK_SIZE; b->proof && c < PROOF_CAUSES; c++)
			expose_count(e, BACKEND("prediction_alarm"),
				     OF(b, {"cause", proof_cause_name(c)}),
				     b->verdict.alarm && b->verdict.cause == (enum proof_cause)c);
	}
}

static const char *const classes[PROOF_CLASSES] = {"plain", "salted", "adapter"};

#define BY_CLASS(name, type, help, field)                                                          \
	do {                                                                                       \
		expose_family(e, name, type, help);                                                \
		for (size_t i = 0; i < v->n_backends; i++)                                         \
			for (int c = 0; v->backends[i].proof && c < PROOF_CLASSES; c++)            \
				expose_count(e, name, OF(&v->backends[i], {"prompt", classes[c]}), \
					     v->backends[i].proof->field);                         \
	} while (0)

static void proofs(struct expose *e, const struct view *v)
{
	BY_CLASS(BACKEND("lookups_total"), "counter", "prompts looked up", lookups[c]);
	BY_CLASS(BACKEND("lookup_misses_total"), "counter", "prompts of which nothing was matched",
		 misses[c]);
	BY_CLASS(BACKEND("usage_requests_total"), "counter",
		 "answers whose usage says what was cached", total[c].requests);
	BY_CLASS(BACKEND("usage_predicted_tokens_total"), "counter",
		 "tokens predicted to be cached, of such answers", total[c].predicted);
	BY_CLASS(BACKEND("usage_cached_tokens_total"), "counter",
		 "tokens that were cached, of such answers", total[c].cached);
}

static void depths(struct expose *e, const struct view *v)
{
	const char *name = BACKEND("match_depth_tokens");
	char bound[24];

	expose_family(e, name, "histogram", "tokens of a prompt predicted to be cached");
	for (size_t i = 0; i < v->n_backends; i++) {
		const struct view_backend *b = &v->backends[i];
		uint64_t sum = 0;

		for (unsigned int d = 0; b->proof && d < PROOF_DEPTHS; d++) {
			sum += b->proof->depths[d];
			if (d < PROOF_DEPTHS - 1)
				snprintf(bound, sizeof(bound), "%llu",
					 (unsigned long long)proof_depth_bound(d));
			else
				snprintf(bound, sizeof(bound), "+Inf");
			expose_count(e, BACKEND("match_depth_tokens_bucket"), OF(b, {"le", bound}),
				     sum);
		}
		if (!b->proof)
			continue;
		expose_count(e, BACKEND("match_depth_tokens_sum"), OF(b), b->proof->depth_sum);
		expose_count(e, BACKEND("match_depth_tokens_count"), OF(b), sum);
	}
}

void page_backends(struct expose *e, const struct view *v)
{
	states(e, v);
	table(e, v);
	alarms(e, v);
	proofs(e, v);
	depths(e, v);
}

// SPDX-License-Identifier: BSD-2-Clause
#include "sim/workload.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/random.h"

const struct workload sim_workloads[] = {
	{.name = "ladder",
	 .help = "150 prefixes of 6,000 tokens, 5 questions of 1,200 each, 3 to 60 requests/s",
	 .groups = 150,
	 .questions = 5,
	 .prefix = 6000,
	 .tail = 1200,
	 .step_s = 30,
	 .rates = {3, 10, 15, 20, 22, 25, 30, 35, 40, 43, 46, 49, 52, 55, 57, 60}},
	{.name = "groups",
	 .help = "64 prefixes of 2,048 tokens, each 16 times with 128 new ones, in any order",
	 .groups = 64,
	 .prefix = 2048,
	 .tail = 128,
	 .draw = DRAW_BALANCED,
	 .step_s = 5.12,
	 .rates = {200}},
	{.name = "groups-zipf",
	 .help = "the same, but the k-th prefix 1/k as often as the first",
	 .groups = 64,
	 .prefix = 2048,
	 .tail = 128,
	 .draw = DRAW_ZIPF,
	 .step_s = 5.12,
	 .rates = {200}},
	{.name = "prefixes",
	 .help = "50 prefixes of 2,000 to 8,000 tokens, nine tenths of their prompts",
	 .groups = 50,
	 .prefix = 2000,
	 .prefix_max = 8000,
	 .step_s = 120,
	 .rates = {10, 15, 20, 25, 30}},
	{.name = "nosharing",
	 .help = "250 tokens that all share, and 1,000 new ones",
	 .groups = 1,
	 .prefix = 250,
	 .tail = 1000,
	 .step_s = 60,
	 .rates = {20, 40, 60, 80, 95}},
	{.name = "burst",
	 .help = "100 requests at once: 4,000 new tokens that they share, 16,000 of each",
	 .groups = 1,
	 .prefix = 4000,
	 .tail = 16000,
	 .at_once = 100},
	{.name = "chats",
	 .help = "chats of six turns of 64 tokens, below one block of the gateway, with session "
		 "keys",
	 .groups = 2000,
	 .tail = 64,
	 .turns = 6,
	 .unit = 512,
	 .step_s = 30,
	 .rates = {100, 200, 300, 400}},
	{0},
};

struct workload_source {
	const struct workload *w;
	uint32_t block;
	__u64 random;
	unsigned int step;
	double at_s;
	uint64_t made;
	uint32_t *deck, left; /* groups not drawn yet, of a balanced draw */
	uint32_t *turns;      /* by group: of all its chats */
	double *shares;	      /* of the groups up to this one, summed up */
	uint32_t boundary;
	uint64_t *ids;
};

const struct workload *sim_workload_find(const char *name)
{
	for (const struct workload *w = sim_workloads; w->name; w++)
		if (!strcmp(w->name, name))
			return w;
	return NULL;
}

/* In [0, 1). */
static double draw(struct workload_source *s)
{
	return (kv_mix(sim_random(&s->random)) >> 11) * 0x1p-53;
}

static uint32_t prefix_of(const struct workload *w, uint32_t group)
{
	uint32_t more = w->prefix_max > w->prefix ? w->prefix_max - w->prefix + 1 : 1;

	return w->prefix + kv_mix(group + 1) % more;
}

static uint32_t tail_of(const struct workload *w, uint32_t prefix)
{
	return w->tail ?: prefix / 9;
}

#define DECK_ROUNDS 16 /* of every group, shuffled together */

struct workload_source *sim_workload_new(const struct workload *w, uint32_t block_tokens)
{
	struct workload_source *s = calloc(1, sizeof(*s));
	uint32_t longest = w->prefix_max ?: w->prefix;
	double sum = 0;

	if (!s)
		return NULL;
	longest += tail_of(w, longest) * (w->turns ?: 1);
	*s = (struct workload_source){
		.w = w,
		.block = block_tokens,
		.random = 1,
		.deck = calloc(w->groups * DECK_ROUNDS, sizeof(*s->deck)),
		.turns = calloc(w->groups, sizeof(*s->turns)),
		.shares = calloc(w->groups, sizeof(*s->shares)),
		.ids = calloc(longest / block_tokens + 1, sizeof(*s->ids)),
	};
	if (!s->deck || !s->turns || !s->shares || !s->ids) {
		sim_workload_free(s);
		return NULL;
	}
	for (uint32_t g = 0; g < w->groups; g++)
		s->shares[g] = sum += 1.0 / (g + 1);
	return s;
}

void sim_workload_free(struct workload_source *s)
{
	if (!s)
		return;
	free(s->deck);
	free(s->turns);
	free(s->shares);
	free(s->ids);
	free(s);
}

static uint32_t draw_group(struct workload_source *s)
{
	uint32_t n = s->w->groups, g = 0, at;
	double x;

	if (s->w->draw == DRAW_UNIFORM)
		return draw(s) * n;
	if (s->w->draw == DRAW_ZIPF) {
		x = draw(s) * s->shares[n - 1];
		while (s->shares[g] <= x)
			g++;
		return g;
	}
	if (!s->left)
		for (; s->left < n * DECK_ROUNDS; s->left++)
			s->deck[s->left] = s->left % n;
	at = draw(s) * s->left;
	g = s->deck[at];
	s->deck[at] = s->deck[--s->left];
	return g;
}

/* The next arrival; false when there are no more. */
static bool arrive(struct workload_source *s)
{
	const struct workload *w = s->w;

	if (w->at_once)
		return s->made < w->at_once;
	while (s->step < WORKLOAD_STEPS && w->rates[s->step] > 0) {
		s->at_s += -log1p(-draw(s)) / w->rates[s->step];
		if (s->at_s < (s->step + 1) * w->step_s)
			return true;
		s->at_s = ++s->step * w->step_s; /* chance has no memory */
	}
	return false;
}

/* Full blocks only: what is cached of a turn's last one nobody has again. */
static void next_turn(struct workload_source *s, struct trace_line *ret)
{
	const struct workload *w = s->w;
	uint32_t group = draw_group(s), turn = s->turns[group]++;
	uint64_t chat = (uint64_t)group << 32 | turn / w->turns;

	ret->at_s = s->at_s;
	ret->input_tokens = (turn % w->turns + 1) * w->tail;
	ret->n_ids = ret->input_tokens / s->block;
	ret->ids = s->ids;
	ret->session = kv_mix(chat + 1);
	ret->hidden = ret->input_tokens < w->unit;
	for (uint32_t j = 0; j < ret->n_ids; j++)
		s->ids[j] = kv_mix(ret->session + j);
}

int sim_workload_next(void *source, struct trace_line *ret, char *err)
{
	struct workload_source *s = source;
	uint32_t group, question, prefix, tokens, n;

	(void)err;
	if (!arrive(s))
		return 0;
	if (s->w->turns) {
		*ret = (struct trace_line){0};
		next_turn(s, ret);
		return 1;
	}
	group = draw_group(s);
	question = s->w->questions ? draw(s) * s->w->questions : s->made;
	prefix = prefix_of(s->w, group);
	tokens = prefix + tail_of(s->w, prefix);
	n = (tokens + s->block - 1) / s->block;
	for (uint32_t j = 0; j < n; j++) {
		uint64_t block = kv_mix(((uint64_t)group << 32 | j) + 1);

		/* a block that reaches into the question is the question's */
		s->ids[j] = (j + 1) * (uint64_t)s->block <= prefix ? block
								   : kv_mix(block ^ (question + 1));
	}
	s->made++;
	s->boundary = prefix;
	*ret = (struct trace_line){
		.at_s = s->at_s,
		.input_tokens = tokens,
		.n_ids = n,
		.n_boundaries = 1,
		.ids = s->ids,
		.boundaries = &s->boundary,
	};
	return 1;
}

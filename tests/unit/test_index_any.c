// SPDX-License-Identifier: BSD-2-Clause
/* Any sequence of events, against a plain model of what engines hold. */
#include "check.h"
#include "events_build.h"
#include "kvsteer.h"

#define NODES 64 /* blocks of a tree of prompts: node n's parent is n / 2 */
#define CACHES 3 /* two ranks of backend 0, and backend 1 */

struct waiting_block {
	uint32_t node, parent;
};

static struct {
	uint32_t refs[NODES][KV_TIERS];
	bool known[NODES];
	struct waiting_block wait[4096];
	int n_wait;
} model[CACHES];
static uint64_t node_key[NODES];

static void node_tokens(uint32_t node, uint32_t *tokens)
{
	for (uint32_t i = 0; i < 16; i++)
		tokens[i] = node * 16 + i;
}

static uint32_t model_refs(int c, uint32_t node)
{
	uint32_t sum = 0;

	for (int t = 0; t < KV_TIERS; t++)
		sum += model[c].refs[node][t];
	return sum;
}

static void model_reveal(int c, uint32_t node)
{
	if (model_refs(c, node))
		model[c].known[node] = true;
	else
		return;
	for (int i = 0; i < model[c].n_wait;) {
		struct waiting_block b = model[c].wait[i];

		if (b.parent != node) {
			i++;
			continue;
		}
		model[c].wait[i] = model[c].wait[--model[c].n_wait];
		if (!model[c].known[b.node])
			model_reveal(c, b.node);
		i = 0;
	}
}

static void model_store(int c, uint32_t node, uint8_t tier)
{
	uint32_t parent = node / 2;

	model[c].refs[node][tier]++;
	if (parent && !model[c].known[parent])
		model[c].wait[model[c].n_wait++] = (struct waiting_block){node, parent};
	else if (!model[c].known[node])
		model_reveal(c, node);
}

static uint32_t model_weight(uint32_t backend, uint32_t node)
{
	static const uint32_t weights[KV_TIERS] = {255, 128, 32, 0};
	uint32_t best = 0;

	for (int c = backend ? 2 : 0; c < (backend ? 3 : 2); c++)
		for (int t = 0; t < KV_TIERS; t++)
			if (model[c].known[node] && model[c].refs[node][t] && weights[t] > best)
				best = weights[t];
	return best;
}

static void random_step(const int *ids)
{
	int c = rand() % CACHES, what = rand() % 100;
	uint32_t node = 1 + rand() % (NODES - 1);
	uint8_t tier = rand() % 4 ? KV_TIER_GPU : rand() % KV_TIERS;

	if (what == 0) {
		memset(&model[c], 0, sizeof(model[c]));
		kv_index_clear(w.ix, ids[c]);
		while (!kv_index_work(w.ix, 7))
			;
	} else if (what < 60) {
		begin(KV_EVENT_STORED, node, 1);
		with_tokens(node / 2, 0, 16);
		node_tokens(node, b.tokens);
		b.event.tier = tier;
		model_store(c, node, tier);
		build_apply(w.ix, ids[c], &b);
	} else {
		begin(KV_EVENT_REMOVED, node, 1);
		b.event.tier = tier;
		if (model[c].refs[node][tier])
			model[c].refs[node][tier]--;
		if (!model_refs(c, node))
			model[c].known[node] = false;
		build_apply(w.ix, ids[c], &b);
	}
}

static void any_sequence(void)
{
	int ids[CACHES];

	TEST("any sequence of events, three caches: what is told is what a plain model holds")
	{
		node_key[0] = 0;
		for (uint32_t n = 1; n < NODES; n++) {
			struct kv_key k = {.domain = KVSTEER_TOKENS, .model = {"m", 1}};
			uint32_t tokens[16];
			uint64_t local;

			node_tokens(n, tokens);
			local = kv_hash_local(tokens, 16, NULL, 0, kv_seed(&k));
			node_key[n] = n > 1 ? kv_hash_chain(node_key[n / 2], local) : local;
		}
		srand(5);
		for (int round = 0; round < 20; round++) {
			open_index();
			memset(model, 0, sizeof(model));
			ids[0] = add(0, 0, 16);
			ids[1] = add(0, 1, 16);
			ids[2] = add(1, 0, 16);
			for (int step = 0; step < 400; step++) {
				unsigned int held = 0;

				random_step(ids);
				for (uint32_t n = 1; n < NODES; n++)
					for (uint32_t k = 0; k < 2; k++) {
						held += model_weight(k, n) != 0;
						CHECK_EQ(world_weight(&w, k, node_key[n]),
							 model_weight(k, n));
					}
				CHECK_EQ(w.n_told, held);
			}
			CHECK_EQ(w.gone_unknown, 0);
		}
	}
}

int main(void)
{
	any_sequence();
	kv_index_free(w.ix);
	return check_done();
}

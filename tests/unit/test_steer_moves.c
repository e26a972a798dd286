// SPDX-License-Identifier: BSD-2-Clause
/* What stays where it is, and what moves: over many requests, under price. Hot prefixes:
 * test_steer_hot.c. */
#include <string.h>

#include "check.h"
#define WORLD_SLOTS 8192
#include "sim/sim.h"
#include "sim/workload.h"
#include "steer_cases.h"

#define PROMPTS 60

static struct kv_dispatch sent[PROMPTS];

/* The n-th prompt, of ten rungs of its own; 0 tokens of it are anybody else's. */
static __u32 place(int n)
{
	ask(10);
	for (__u32 i = 0; i < 10; i++)
		st.query.rungs[i].hash = 100 * (n + 1) + i;
	return decide();
}

static void served(struct kv_dispatch *d)
{
	kv_steer_commit(&st, d);
	kv_dispatch_answered(d);
	kv_dispatch_finished(d);
	world.now += SECOND;
}

static void test_fleet(void)
{
	__u32 home[PROMPTS], stays = 0, moves = 0, others[5] = {};

	TEST("a backend is added: nothing moves, and what is new goes there; one is lost: only its "
	     "own move")
	{
		world_reset(KV_POLICY_PRICE, 4, 1 << 20, 10000);
		for (int i = 0; i < PROMPTS; i++) {
			home[i] = place(i);
			served(&sent[i]);
		}
		world.services[0].backends[4] = 4;
		world.services[0].n_backends = 5;
		world.backends[4] = world.backends[0];
		world.backends[4].clock = 0;
		for (int i = 0; i < PROMPTS; i++)
			CHECK_EQ(place(i), home[i]);
		CHECK_EQ(place(PROMPTS), 4); /* the one with room */
		world.backends[1].state = KV_BACKEND_DOWN;
		for (int i = 0; i < PROMPTS; i++) {
			__u32 now = place(i);

			CHECK(now != 1);
			served(&sent[i]);
			others[now]++;
			stays += now == home[i];
			moves += home[i] == 1;
		}
		CHECK(moves >= PROMPTS / 8);
		CHECK_EQ(stays, PROMPTS - moves);
		CHECK(others[4] > 0);
	}
}

static void test_session(void)
{
	__u32 first;

	TEST("a chat of less than a block stays by its session, among any number of others")
	{
		world_reset(KV_POLICY_PRICE, 4, 1 << 20, 10000);
		for (int chat = 0; chat < 20; chat++) {
			for (int turn = 0; turn < 5; turn++) {
				ask(0);
				st.query.session = 1000 + chat;
				st.query.total = 10 + 10 * turn;
				if (!turn)
					first = decide();
				else
					CHECK_EQ(decide(), first);
				served(&sent[0]);
			}
		}
		for (int k = 0; k < 4; k++)
			CHECK(world.backends[k].requests >= 10);
	}
}

static int next_of_workload(void *ctx, struct trace_line *ret, char *err)
{
	struct trace_line line;
	int rc = sim_workload_next(ctx, &line, err);

	*ret = line;
	return rc > 0 && line.at_s < 20 ? rc : 0;
}

static struct sim_result shared_head(const char *policy)
{
	const struct sim_options options = {
		.backends = 8, .blocks = 64000, .block_tokens = 16, .rate = 16000};
	struct workload_source *made = sim_workload_new(sim_workload_find("nosharing"), 16);
	struct sim_source source = {next_of_workload, made};
	struct sim_run *run = sim_run_new(sim_policy_find(policy), 5, &options);
	struct sim_result result = {};
	char err[TRACE_ERROR_LEN];

	CHECK_EQ(sim_pass(&source, &options, &run, &result, 1, err), 0);
	sim_run_free(run);
	sim_workload_free(made);
	return result;
}

int main(void)
{
	test_fleet();
	test_session();
	TEST("a head that everybody shares draws nobody: as least does, and evenly")
	{
		struct sim_result price = shared_head("price"), least = shared_head("least");

		CHECK(price.requests > 300);
		CHECK(price.ttft_mean <= 1.01 * least.ttft_mean);
		CHECK(price.ttft_p99 <= 1.01 * least.ttft_p99);
		CHECK(price.busiest_over_mean < 1.1);
	}
	world_free();
	return check_done();
}

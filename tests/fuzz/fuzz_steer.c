/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steering core under any sequence of requests, settlements and changes of the fleet, over
 * small tables that fill up. The input is a program: one operation per byte, with its operands
 * after it. Whatever it does, only backends that take requests are chosen, a choice adds up, and
 * when all is settled nothing is left in flight. TCP options from the input are rewritten on the
 * way.
 */
#include <stdint.h>
#include <stdlib.h>

#define WORLD_SLOTS 256u
#include "../unit/steer_world.h"
#include "kvsteer/seq.h"

#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			__builtin_trap();                                                          \
	} while (0)

#define SLOTS 32

struct input {
	const uint8_t *data;
	size_t left;
};

static struct kv_steer st;
static struct kv_dispatch slots[SLOTS];

static uint8_t byte(struct input *in)
{
	return in->left ? in->left--, *in->data++ : 0;
}

/* Numbers of all sizes, small ones most often. */
static uint64_t number(struct input *in)
{
	uint8_t shift = byte(in);

	return (uint64_t)byte(in) << (shift < 160 ? 0 : shift & 63);
}

static void ask(struct input *in)
{
	uint32_t depth = 0;

	memset(&st.query, 0, sizeof(st.query));
	st.query.service = byte(in) ? 0 : byte(in);
	st.query.total = number(in);
	st.query.session = byte(in) % 16;
	st.query.body_len = number(in);
	st.query.exclude = byte(in) % 4 ? KV_NONE : byte(in);
	st.query.n_rungs = byte(in) % 40; /* a few more than there can be */
	for (uint32_t i = 0; i < st.query.n_rungs && i < KV_MAX_RUNGS; i++) {
		depth += number(in);
		st.query.rungs[i].depth = depth;
		st.query.rungs[i].hash = 1 + byte(in);
	}
}

static void check_choice(const struct kv_choice *c)
{
	const struct kv_backend *b = kv_world_backend(c->backend);
	const struct kv_service *svc = kv_world_service(st.query.service);
	uint32_t i = 0;

	MUST(b && b->state == KV_BACKEND_UP && c->backend != st.query.exclude);
	while (i < svc->n_backends && svc->backends[i] != c->backend)
		i++;
	MUST(i < svc->n_backends);
	MUST(c->intended < KV_MAX_BACKENDS && c->matched <= c->best);
	MUST(c->matched <= c->believed && (!c->believed || c->believed >= svc->floor));
	MUST(c->own <= st.need &&
	     c->own >= st.need - (c->matched < st.need ? c->matched : st.need));
	MUST(c->price <= KV_PRICE_TOP);
}

static void decide_and_send(struct input *in)
{
	const struct kv_service *svc = kv_world_service(st.query.service);
	struct kv_dispatch *d = &slots[byte(in) % SLOTS];
	struct kv_choice first;
	uint64_t chance = world.random;
	int err = kv_steer_decide(&st);

	first = st.choice;
	if (!err)
		check_choice(&first);
	else
		MUST(first.backend == KV_NONE);
	/* the same question has the same answer */
	world.random = chance;
	if (svc && svc->policy != KV_POLICY_ROUND_ROBIN) {
		MUST(kv_steer_decide(&st) == err);
		MUST(!memcmp(&first, &st.choice, sizeof(first)));
	}
	kv_dispatch_finished(d); /* what was in the slot before */
	kv_steer_commit(&st, d);
}

static void change_fleet(struct input *in)
{
	struct kv_backend *b = &world.backends[byte(in)];

	switch (byte(in) % 6) {
	case 0:
		b->state = byte(in) % 4;
		break;
	case 1:
		b->epoch++;
		break;
	case 2:
		b->clock += number(in);
		break;
	case 3:
		b->capacity = number(in);
		break;
	case 4:
		b->rate = number(in);
		break;
	case 5:
		b->discount = byte(in);
		break;
	}
}

static void rewrite_options(struct input *in)
{
	uint8_t bytes[1 + KV_TCP_OPTIONS + 1];
	struct kv_tcp_options found;
	uint32_t len = byte(in);

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = byte(in);
	bytes[0] = bytes[KV_TCP_OPTIONS + 1] = 0xa5;
	kv_tcp_options_scan(bytes + 1, len, &found);
	kv_tcp_ts_set(bytes + 1, &found, number(in), number(in));
	kv_tcp_sack_add(bytes + 1, &found, number(in));
	MUST(bytes[0] == 0xa5 && bytes[KV_TCP_OPTIONS + 1] == 0xa5);
	MUST(found.n_sack <= 4 && (!found.ts || found.ts + 8 <= KV_TCP_OPTIONS));
	MUST(!found.sack || found.sack + 8 * found.n_sack <= KV_TCP_OPTIONS);
}

static void operation(struct input *in)
{
	switch (byte(in) % 10) {
	case 0:
	case 1:
	case 2:
		ask(in);
		decide_and_send(in);
		break;
	case 3:
		decide_and_send(in); /* the same again */
		break;
	case 4:
		kv_dispatch_answered(&slots[byte(in) % SLOTS]);
		break;
	case 5:
		kv_dispatch_finished(&slots[byte(in) % SLOTS]);
		break;
	case 6:
		kv_dispatch_failed(&slots[byte(in) % SLOTS]);
		break;
	case 7:
		world.now += number(in);
		break;
	case 8:
		change_fleet(in);
		break;
	case 9:
		rewrite_options(in);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	uint8_t policy = byte(&in), n = byte(&in);

	world_reset(policy % KV_POLICY_MAX, n, number(&in), number(&in));
	world.services[0].floor = number(&in);
	memset(&st, 0, sizeof(st));
	memset(slots, 0, sizeof(slots));
	while (in.left)
		operation(&in);

	for (int i = 0; i < SLOTS; i++)
		kv_dispatch_finished(&slots[i]);
	for (int i = 0; i < KV_MAX_BACKENDS; i++)
		MUST(!world.backends[i].inflight_tokens && !world.backends[i].inflight_requests);
	for (uint32_t i = 0; i < WORLD_SLOTS; i++)
		for (int j = 0; j < KV_HOLDERS; j++)
			MUST(!(world_holder(i, j) & KV_HOLDER_TENTATIVE));
	return 0;
}

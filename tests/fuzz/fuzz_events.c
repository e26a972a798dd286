// SPDX-License-Identifier: BSD-2-Clause
/*
 * Publishers of any bytes: order, decoder and index together. The input is a row of commands: a
 * byte that says what comes (live, replayed, end, connection, time), a number, and for messages a
 * length and the payload. What must hold: every message comes out of the sequence once; in steps
 * the decoder reads what it reads at once; what the index has told is what
 * it finds; it keeps within its cap, and is empty and has taken back all once its engines are gone.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "events/index.h"
#include "events/sequence.h"

#define must(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			abort();                                                                   \
	} while (0)

#define ENGINES 3 /* two ranks of a backend, and another backend */

struct payload {
	const uint8_t *data;
	size_t len;
};

struct publisher {
	int id;
	struct kv_sequence sequence;
};

static struct kv_index *ix;
static struct kv_decode *decode, *steps;
static struct publisher publishers[ENGINES];
static unsigned int given, taken;

/* What has been told: more than the cap's entries. */
static struct {
	uint64_t key;
	uint32_t backend, weight;
} held[8192];
static unsigned int n_held;

static unsigned int held_at(uint64_t key, uint32_t backend)
{
	unsigned int i = 0;

	while (i < n_held && (held[i].key != key || held[i].backend != backend))
		i++;
	return i;
}

static void told(void *ctx, uint64_t key, uint32_t depth, uint32_t backend, uint32_t weight)
{
	unsigned int i;

	(void)ctx;
	must(depth && weight && backend < 2);
	must(kv_index_lookup(ix, backend, key) == weight);
	i = held_at(key, backend);
	n_held += i == n_held;
	must(n_held < sizeof(held) / sizeof(*held));
	held[i].key = key;
	held[i].backend = backend;
	held[i].weight = weight;
}

static void gone(void *ctx, uint64_t key, uint32_t backend)
{
	unsigned int i = held_at(key, backend);

	(void)ctx;
	must(backend < 2);
	if (i < n_held) /* else void already */
		held[i] = held[--n_held];
}

static void all_gone(void *ctx, uint32_t backend, uint32_t rank, bool wholesale)
{
	(void)ctx;
	must(backend < 2 && rank < 2);
	for (unsigned int i = 0; wholesale && i < n_held;)
		if (held[i].backend == backend)
			held[i] = held[--n_held];
		else
			i++;
}

static void is_complete(void *ctx, uint32_t backend, uint32_t rank, bool is)
{
	(void)ctx;
	(void)is;
	must(backend < 2 && rank < 2);
}

static const struct kv_index_sink sink = {told, gone, all_gone, all_gone, is_complete};

static void check_steps(const struct payload *p, int expected)
{
	const struct kv_batch *a = kv_decode_batch(decode), *b = kv_decode_batch(steps);
	int ret;

	kv_decode_begin(steps, p->data, p->len);
	do
		ret = kv_decode_step(steps, 3);
	while (!ret);
	must((ret < 0 ? ret : 0) == expected);
	must(expected || (a->n_events == b->n_events && a->n_hashes == b->n_hashes &&
			  a->n_tokens == b->n_tokens && a->rank == b->rank));
}

static void release(void *ctx, struct kv_message *m)
{
	(void)ctx;
	taken++;
	free(m->payload);
}

static void apply(void *ctx, struct kv_message *m)
{
	struct publisher *p = ctx;
	struct payload *payload = m->payload;
	struct kv_index_apply a;
	int err = kv_decode(decode, payload->data, payload->len);

	check_steps(payload, err);
	if (err) {
		kv_sequence_spoiled(&p->sequence);
	} else {
		kv_index_begin(&a, p->id, kv_decode_batch(decode));
		while (!kv_index_step(ix, &a, 5))
			;
	}
	kv_index_work(ix, 7);
	release(ctx, m);
}

static void ask(void *ctx, uint64_t from)
{
	(void)ctx;
	(void)from;
}

static void stop(void *ctx)
{
	(void)ctx;
}

static void restarted(void *ctx)
{
	kv_index_clear(ix, ((struct publisher *)ctx)->id);
}

static void unsure(void *ctx)
{
	kv_index_unsure(ix, ((struct publisher *)ctx)->id);
}

static void complete(void *ctx)
{
	kv_index_complete(ix, ((struct publisher *)ctx)->id);
}

static const struct kv_sequence_ops ops = {apply, release, ask, stop, restarted, unsure, complete};

static void command(const uint8_t **data, const uint8_t *end, uint64_t *now)
{
	uint8_t what = (*data)[0], seq = (*data)[1];
	struct publisher *p = &publishers[what / 8 % ENGINES];
	struct payload *payload;
	struct kv_message m;
	size_t len;

	*data += 2;
	*now += 1000;
	switch (what % 8) {
	case 0:
		kv_sequence_connected(&p->sequence, *now);
		return;
	case 1:
		kv_sequence_replay_end(&p->sequence, *now);
		return;
	case 2:
		*now += (uint64_t)seq << 27;
		kv_sequence_tick(&p->sequence, *now);
		return;
	default:
		break;
	}
	len = end - *data < 2 ? 0 : (*data)[0] | (*data)[1] << 8;
	*data += end - *data < 2 ? 0 : 2;
	len = len < (size_t)(end - *data) ? len : (size_t)(end - *data);
	payload = malloc(sizeof(*payload));
	*payload = (struct payload){*data, len};
	*data += len;
	m = (struct kv_message){.seq = what % 8 == 7 ? UINT64_MAX - seq : seq,
				.digest = len ? (*data)[-1] : 0,
				.bytes = len,
				.payload = payload};
	given++;
	if (what % 8 == 3)
		kv_sequence_replayed(&p->sequence, &m, *now);
	else
		kv_sequence_live(&p->sequence, &m, *now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kv_sequence_limits limits = KV_SEQUENCE_LIMITS;
	struct kv_index_limits index = KV_INDEX_LIMITS;
	const uint8_t *end = data + size;
	uint64_t now = 1;

	if (!decode) {
		decode = kv_decode_new();
		steps = kv_decode_new();
	}
	if (!size)
		return 0;
	given = taken = n_held = 0;
	index.max_bytes = 256 << 10;
	index.max_orphan_bytes = 8 << 10;
	limits.hold_count = 8;
	limits.replay = data[0] & 1;
	ix = kv_index_new(&index, &sink, NULL);
	for (int i = 0; i < ENGINES; i++) {
		struct kv_index_engine e = {.backend = i / 2, .rank = i % 2};

		e.block = data[0] & 2 ? 4 : 0;
		publishers[i].id = kv_index_add(ix, &e);
		kv_sequence_init(&publishers[i].sequence, &limits, &ops, &publishers[i]);
	}
	data++;
	while (end - data >= 2)
		command(&data, end, &now);
	must(kv_index_bytes(ix) <= index.max_bytes);
	while (!kv_index_work(ix, 1000))
		;
	for (unsigned int i = 0; i < n_held; i++)
		must(kv_index_lookup(ix, held[i].backend, held[i].key) == held[i].weight);
	for (int i = 0; i < ENGINES; i++) {
		kv_sequence_exit(&publishers[i].sequence);
		kv_index_remove(ix, publishers[i].id);
	}
	must(given == taken);
	while (!kv_index_work(ix, 1000))
		;
	must(!kv_index_entries(ix) && !n_held);
	kv_index_free(ix);
	return 0;
}

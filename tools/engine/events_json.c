// SPDX-License-Identifier: BSD-2-Clause
/* Events as trtllm-serve answers with them: each once, to whoever asks first. */
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "engine.h"
#include "events.h"

#define WINDOW 131072

struct events_queue {
	uint32_t most, rank, n;
	uint64_t id; /* of the next event */
	struct buf *texts;
};

struct events_queue *events_queue_new(uint32_t most, uint32_t rank)
{
	struct events_queue *q = calloc(1, sizeof(*q));

	if (!q || !(q->texts = calloc(most, sizeof(*q->texts))))
		exit(1);
	q->most = most;
	q->rank = rank;
	return q;
}

static void drop_first(struct events_queue *q)
{
	buf_free(&q->texts[0]);
	memmove(q->texts, q->texts + 1, (q->most - 1) * sizeof(*q->texts));
	memset(&q->texts[q->most - 1], 0, sizeof(*q->texts));
	q->n--;
}

void events_queue_forget(struct events_queue *q)
{
	while (q->n)
		drop_first(q);
}

static void push(struct events_queue *q, struct buf *data, bool lost)
{
	struct buf *b;

	if (!lost) {
		if (q->n == q->most)
			drop_first(q);
		b = &q->texts[q->n++];
		*b = (struct buf){0};
		buf_printf(b, "{\"event_id\":%llu,\"data\":", (unsigned long long)q->id);
		buf_add(b, buf_head(data), data->len);
		buf_printf(b, ",\"window_size\":%u,\"attention_dp_rank\":%u}", WINDOW, q->rank);
	}
	buf_free(data);
	q->id++;
}

void events_queue_restart(struct events_queue *q, uint32_t blocks)
{
	struct buf b = {0};

	events_queue_forget(q);
	q->id = 0;
	buf_printf(&b, "{\"type\":\"created\",\"num_blocks_per_cache_level\":[%u,0]}", blocks);
	push(q, &b, false);
}

static void hashes(struct buf *b, const uint64_t *hash, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		buf_printf(b, "%s%llu", i ? "," : "", (unsigned long long)hash[i]);
}

static void block(struct buf *b, const struct events_change *c, uint32_t at)
{
	const uint32_t *token = c->tokens + (size_t)at * c->block_size;

	buf_printf(b, "{\"type\":\"stored_block\",\"block_hash\":%llu,\"tokens\":[",
		   (unsigned long long)c->hashes[at]);
	for (uint32_t i = 0; i < c->block_size; i++)
		buf_printf(b, "%s{\"type\":\"unique_token\",\"token_id\":%u,\"token_extra_id\":0}",
			   i ? "," : "", token[i]);
	buf_str(b, "],\"cache_level\":0,\"priority\":35,\"mm_keys\":[]}");
}

static void stored(struct buf *b, const struct events_change *c, uint32_t from, uint32_t n)
{
	buf_str(b, "{\"type\":\"stored\",\"parent_hash\":");
	if (from)
		hashes(b, &c->hashes[from - 1], 1);
	else
		buf_str(b, "null");
	buf_str(b, ",\"blocks\":[");
	for (uint32_t i = 0; i < n; i++) {
		buf_str(b, i ? "," : "");
		block(b, c, from + i);
	}
	buf_str(b, "]}");
}

uint32_t events_queue_add(struct events_queue *q, const struct events_batch *batch, bool lost)
{
	uint64_t before = q->id;
	struct buf b = {0};
	uint32_t at, n;

	if (batch->n_removed) {
		buf_str(&b, "{\"type\":\"removed\",\"block_hashes\":[");
		hashes(&b, batch->removed, batch->n_removed);
		buf_str(&b, "]}");
		push(q, &b, lost);
	}
	for (at = 0; batch->stored && events_next_run(batch->stored, &at, &n); at += n) {
		b = (struct buf){0};
		stored(&b, batch->stored, at, n);
		push(q, &b, lost);
	}
	return q->id - before;
}

uint64_t events_queue_next(const struct events_queue *q)
{
	return q->id;
}

void events_queue_take(struct events_queue *q, struct buf *ret)
{
	buf_str(ret, "[");
	for (uint32_t i = 0; i < q->n; i++) {
		buf_str(ret, i ? "," : "");
		buf_add(ret, buf_head(&q->texts[i]), q->texts[i].len);
	}
	buf_str(ret, "]");
	events_queue_forget(q);
}

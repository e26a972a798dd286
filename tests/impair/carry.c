// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <bpf/libbpf.h>

#include "carry.h"
#include "cut.h"

#define NS_PER_S 1000000000ull
#define IDLE_NS (NS_PER_S / 50) /* how long an order to stop may go unseen */

struct waiting {
	uint64_t due;
	uint64_t number; /* of those due together the first comes first */
	struct impair_held *held;
};

struct queue {
	const struct carry *carry;
	struct waiting *heap;
	size_t n;
	size_t room;
	uint64_t number;
	uint64_t last_due; /* of those that keep their order */
	int err;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static bool earlier(const struct waiting *a, const struct waiting *b)
{
	return a->due != b->due ? a->due < b->due : a->number < b->number;
}

static void swap(struct waiting *a, struct waiting *b)
{
	struct waiting t = *a;

	*a = *b;
	*b = t;
}

static int push(struct queue *q, const struct waiting *w)
{
	size_t i = q->n;

	if (q->n == q->room) {
		size_t room = q->room ? q->room * 2 : 1024;
		struct waiting *heap = realloc(q->heap, room * sizeof(*heap));

		if (!heap)
			return -ENOMEM;
		q->heap = heap;
		q->room = room;
	}
	q->heap[q->n++] = *w;
	for (; i && earlier(&q->heap[i], &q->heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&q->heap[i], &q->heap[(i - 1) / 2]);
	return 0;
}

static struct impair_held *pop(struct queue *q)
{
	struct impair_held *first = q->heap[0].held;
	size_t i = 0, child;

	q->heap[0] = q->heap[--q->n];
	while ((child = 2 * i + 1) < q->n) {
		if (child + 1 < q->n && earlier(&q->heap[child + 1], &q->heap[child]))
			child++;
		if (!earlier(&q->heap[child], &q->heap[i]))
			break;
		swap(&q->heap[i], &q->heap[child]);
		i = child;
	}
	return first;
}

static int on_record(void *ctx, void *record, size_t size)
{
	const struct impair_held *h = record;
	struct queue *q = ctx;
	struct waiting w = {.due = h->due_ns, .number = q->number++};

	if (size < sizeof(*h) + h->len)
		return 0;
	w.held = malloc(sizeof(*h) + h->len);
	if (!w.held)
		return -ENOMEM;
	memcpy(w.held, h, sizeof(*h) + h->len);
	if (!(h->todo & IMPAIR_DO_REORDER)) {
		w.due = q->last_due > w.due ? q->last_due : w.due;
		q->last_due = w.due;
	}
	return push(q, &w);
}

static void emit(void *ctx, const uint8_t *frame, size_t len)
{
	struct queue *q = ctx;

	/* A full socket buffer is loss, as in a full queue; a vanished interface is the end. */
	if (send(q->carry->packet, frame, len, 0) < 0 && (errno == ENXIO || errno == ENODEV))
		q->err = -errno;
}

static void send_due(struct queue *q, uint64_t now)
{
	const struct impair_config *c = q->carry->config;
	__u64 *counts = q->carry->state->counts;

	while (q->n && q->heap[0].due <= now) {
		struct impair_held *h = pop(q);
		const uint8_t *data = (const uint8_t *)(h + 1);
		unsigned int n = cut_packet(h, data, c->cut_min, c->cut_max, emit, q);

		if (h->todo & IMPAIR_DO_CUT)
			__atomic_fetch_add(&counts[IMPAIR_PIECES], n, __ATOMIC_RELAXED);
		if (h->todo & IMPAIR_DO_DUPLICATE) {
			h->todo &= ~IMPAIR_DO_CORRUPT;
			cut_packet(h, data, c->cut_min, c->cut_max, emit, q);
		}
		free(h);
	}
}

int carry_run(const struct carry *carry)
{
	struct queue q = {.carry = carry};
	struct ring_buffer *ring = ring_buffer__new(carry->ring, on_record, &q, NULL);
	struct pollfd fd = {.events = POLLIN};

	if (!ring)
		return -errno;
	fd.fd = ring_buffer__epoll_fd(ring);
	while (!q.err && !__atomic_load_n(&carry->state->stop, __ATOMIC_RELAXED)) {
		uint64_t now = now_ns(), wait = IDLE_NS;
		struct timespec t = {};

		send_due(&q, now);
		if (q.n && q.heap[0].due - now < wait)
			wait = q.heap[0].due - now;
		t.tv_nsec = wait;
		if (ppoll(&fd, 1, &t, NULL) < 0 && errno != EINTR)
			q.err = -errno;
		if (ring_buffer__consume(ring) < 0)
			q.err = -ENOMEM;
	}
	while (q.n)
		free(pop(&q));
	free(q.heap);
	ring_buffer__free(ring);
	return q.err;
}

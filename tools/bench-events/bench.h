/* SPDX-License-Identifier: BSD-2-Clause */
/* kv-bench-events: how fast engines' events become entries, in how much memory, how soon. */
#ifndef BENCH_EVENTS_H
#define BENCH_EVENTS_H

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

#include "events/follow.h"

#define BLOCK 16

struct result {
	const char *name, *unit;
	double value;
	double limit; /* to be reached */
	int sense;    /* 1: at least, -1: at most, 0: just shown */
};

struct results {
	struct result row[32];
	int n;
};

void result_add(struct results *r, const char *name, double value, const char *unit, int sense,
		double limit);

double seconds_cpu(void);  /* of this thread */
double seconds_wall(void); /* CLOCK_MONOTONIC */
uint64_t bytes_resident(void);

/* A batch with one event; hashes and tokens follow from the blocks' numbers. parent: number + 1, 0:
 * none. map: as from vLLM 0.24 on. */
void pack_stored(msgpack_sbuffer *out, bool map, uint64_t first, uint32_t n, uint64_t parent);
void pack_removed(msgpack_sbuffer *out, bool map, uint64_t first, uint32_t n);
uint32_t token_of(uint64_t block, uint32_t i);

/* For sinks that hear only what is told. */
void ignore_gone(void *ctx, uint64_t key, uint32_t backend);
void ignore_cache(void *ctx, uint32_t backend, uint32_t rank, bool flag);

int bench_apply(struct results *r, uint64_t blocks);
/* raw.c: an engine's publisher: a listener, who has connected to it, a batch. -errno: failed. */
int raw_listen(char *endpoint, size_t size);
int raw_accept(int listener);
int raw_send(int fd, uint64_t seq, const void *payload, size_t n);
int bench_latency(struct results *r, double seconds);
int watch(int argc, char **argv);

#endif

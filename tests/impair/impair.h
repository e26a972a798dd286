/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the impairing program and its carrier share. */
#ifndef KVSTEER_TESTS_IMPAIR_H
#define KVSTEER_TESTS_IMPAIR_H

#include <kvsteer/types.h>

/* A packet of ours that passes the hook again: to be let through. */
#define IMPAIR_MARK 0x6b766900

enum impair_kind {
	IMPAIR_PACKETS, /* all that were looked at; also the number that decisions follow from */
	IMPAIR_BYTES,
	IMPAIR_LOST,
	IMPAIR_DUPLICATED,
	IMPAIR_REORDERED,
	IMPAIR_DELAYED,
	IMPAIR_CUT,    /* packets cut … */
	IMPAIR_PIECES, /* … and what became of them */
	IMPAIR_CORRUPTED,
	IMPAIR_ZERO_WINDOW,
	IMPAIR_CARRIED,	 /* went through the carrier */
	IMPAIR_OVERFLOW, /* lost because the carrier's ring was full or the packet too large */
	IMPAIR_KINDS,
};

/* Pinned and mapped: counts, and how detach tells the carrier to end. */
struct impair_state {
	__u64 counts[IMPAIR_KINDS];
	__u32 stop;
	__u32 carrier; /* its pid, 0: none */
};

/* Chances are of 2^32. */
struct impair_config {
	__u64 seed;
	__u32 loss;
	__u32 reorder;
	__u32 duplicate;
	__u32 corrupt;
	__u32 delay_us;
	__u32 jitter_us;
	__u32 hold_us; /* a reordered packet is held for up to this long */
	__u32 cut_min; /* 0: no cutting */
	__u32 cut_max;
	__u32 closed_ms; /* window closed for this long … */
	__u32 open_ms;	 /* … and open for this long, in turn; 0: never closed */
	__u32 tcp_only;
	__u32 spare_syn;
};

/* What is to be done with a packet handed to the carrier. */
#define IMPAIR_DO_CORRUPT 1u
#define IMPAIR_DO_DUPLICATE 2u
#define IMPAIR_DO_REORDER 4u /* may be overtaken; the others keep their order */
#define IMPAIR_DO_CUT 8u

struct impair_held {
	__u64 due_ns; /* CLOCK_MONOTONIC */
	__u64 random; /* for cuts and the flipped bit */
	__u32 len;
	__u32 todo;
	__u32 gso_size; /* 0: one segment */
	__u32 l4;	/* offset of the TCP header, 0: not TCP */
};

/* Records come in two sizes, as the ring wants them constant. */
#define IMPAIR_SMALL 2048
#define IMPAIR_LARGE 67584
#define IMPAIR_RING (16u << 20)

#endif

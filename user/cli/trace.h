/* SPDX-License-Identifier: BSD-2-Clause */
/* kvsteer trace: the flight recorder's records, read and shown. */
#ifndef KVSTEER_CLI_TRACE_H
#define KVSTEER_CLI_TRACE_H

#include <stdio.h>

#include <kvsteer/trace.h>

#include "view.h"

struct trace_filter {
	__u32 service; /* KV_NONE: all */
	__u32 backend; /* the choice; KV_NONE: all */
	__u64 slow_ns; /* to the first byte of the answer, or until now; 0: all */
};

/* The ring as mapped, and what has been shown of it. */
struct trace_ring {
	const struct kv_pins *pins;
	__u32 places;
	__u64 *seen;  /* by place: word of the record that was there at the last look */
	__u64 missed; /* records that were overwritten unseen, since the first look */
};

struct trace_list {
	struct kv_trace *records;
	size_t n;
};

/* 0, or an exit code after the error was told: also if nothing is traced. */
int ring_open(struct cli *cli, const struct kv_pins *pins, struct trace_ring *ret);
void ring_close(struct trace_ring *ring);
/* The last records that pass, by their begin; all that are there: last is SIZE_MAX. Heap memory. */
int ring_last(struct trace_ring *ring, const struct trace_filter *filter, size_t last,
	      struct trace_list *ret);
/* What has ended by now is no news. */
void ring_first(struct trace_ring *ring);
/* Those that have ended since the last look, by their end. */
int ring_news(struct trace_ring *ring, const struct trace_filter *filter, struct trace_list *ret);

/* Time from the decision to the answer's first byte, to the end; 0: not yet. */
__u64 trace_ttft_ns(const struct kv_trace *t);
__u64 trace_took_ns(const struct kv_trace *t);
/* Tokens that it does not find there, because another backend was chosen than that which has most.
 */
__u32 trace_diverted(const struct kv_trace *t);
const char *trace_lane(const struct kv_trace *t);
/* Name of the counter that tells why it was left to the agent, and what it means; NULL: not known.
 */
const char *trace_reason(const struct kv_trace *t, const char **ret_meaning);
/* NULL: it has not ended. */
const char *trace_end_name(const struct kv_trace *t);
/* "-": nobody; "#7": there is no such backend any more. */
const char *trace_backend(const struct view *view, __u32 id, char buf[KV_NAME_LEN]);

void trace_heading(FILE *f);
/* why: a second line, with the backends as the decision saw them. */
void trace_line(FILE *f, const struct view *view, const struct kv_trace *t, bool why);
int trace_json(const struct view *view, const struct kv_trace *t);

#endif

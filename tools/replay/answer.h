/* SPDX-License-Identifier: BSD-2-Clause */
/* A streamed answer: server-sent events as OpenAI-compatible engines send them. */
#ifndef REPLAY_ANSWER_H
#define REPLAY_ANSWER_H

#include <event2/buffer.h>
#include <stdbool.h>
#include <stdint.h>

struct answer {
	struct evbuffer *pending; /* bytes of a line that is not whole yet */
	uint32_t content_events;
	uint32_t prompt_tokens;
	uint32_t cached_tokens;
	uint32_t completion_tokens;
	bool usage_seen;
	bool done;
	bool malformed;
};

int answer_init(struct answer *a);
void answer_feed(struct answer *a, struct evbuffer *in);
void answer_free(struct answer *a);

/* What is wrong with the finished answer, NULL when it is complete. */
const char *answer_fault(const struct answer *a, uint32_t want_tokens, bool merged);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads HTTP/1.1 answers in any segmentation, strictly (RFC 9112): what is doubtful is an error. It
 * is written apart from kvsteer's own framing, which the tools would otherwise only compare with
 * itself.
 */
#ifndef TOOLS_ANSWER_H
#define TOOLS_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ANSWER_HEAD_MAX 16384

enum answer_event {
	ANSWER_MORE, /* all data is taken, the answer is not complete */
	ANSWER_HEAD, /* the final head is whole: status and answer_field() are valid */
	ANSWER_BODY, /* *ret_body, *ret_len are bytes of the body */
	ANSWER_END,  /* complete; data behind it has not been taken */
	ANSWER_BAD,  /* not HTTP: error says why */
};

struct answer {
	uint8_t state;
	bool head_only; /* the caller's: it answers a HEAD request */
	bool close;	/* the connection ends with it */
	int status;
	uint32_t interims; /* 1xx answers before it */
	uint32_t head_len;
	uint64_t left;
	uint64_t bytes; /* of its body so far */
	const char *error;
	char head[ANSWER_HEAD_MAX];
};

void answer_init(struct answer *a);
/* Takes bytes off the front of *data up to the next event. */
enum answer_event answer_next(struct answer *a, const char **data, size_t *len,
			      const char **ret_body, size_t *ret_len);
/* The peer has closed: ANSWER_END or ANSWER_BAD. */
enum answer_event answer_eof(struct answer *a);
/* Complete: the next call of answer_next() says ANSWER_END. */
bool answer_is_whole(const struct answer *a);
/* Nothing of it has come yet. */
bool answer_untouched(const struct answer *a);
/* How many fields of that name the head has; the value of the last. */
unsigned int answer_field(const struct answer *a, const char *name, const char **ret_value,
			  size_t *ret_len);

#endif /* TOOLS_ANSWER_H */

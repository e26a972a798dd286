// SPDX-License-Identifier: BSD-2-Clause
/* From a prompt to its rungs: a JSON body, and token ids. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvsteer.h>

#include "common/cleanup.h"
#include "micro.h"

#define BODY_BYTES 220000
#define TOKENS (1 << 20)

static char *make_body(size_t *ret_len)
{
	static const char head[] =
		"{\"model\":\"bench\",\"messages\":[{\"role\":\"user\",\"content\":\"";
	static const char words[] =
		"to be or not to be, that is the question; whether it is nobler\\n";
	static const char end[] = "\"}]}";
	char *body = malloc(BODY_BYTES + sizeof(head) + sizeof(words) + sizeof(end));
	size_t at = sizeof(head) - 1;

	if (!body)
		return NULL;
	memcpy(body, head, at);
	for (; at < BODY_BYTES; at += sizeof(words) - 1)
		memcpy(body + at, words, sizeof(words) - 1);
	memcpy(body + at, end, sizeof(end) - 1);
	*ret_len = at + sizeof(end) - 1;
	return body;
}

static int hash_body(struct micro *m)
{
	struct kvsteer_prompt prompt;
	double from = micro_now(), now;
	_cleanup_free_ char *body = NULL;
	uint64_t bytes = 0;
	size_t len;
	int err;

	body = make_body(&len);
	if (!body)
		return -ENOMEM;
	do {
		err = kvsteer_body("/v1/chat/completions", body, len, NULL, &prompt);
		if (err)
			return err;
		bytes += len;
		now = micro_now();
	} while (now - from < m->seconds);
	micro_add(m, "hash_body_220kb_us", (now - from) / bytes * len * 1e6);
	micro_add(m, "hash_body_gb_s", bytes / (now - from) / 1e9);
	return 0;
}

static int hash_tokens(struct micro *m)
{
	_cleanup_free_ uint32_t *ids = malloc(TOKENS * sizeof(*ids));
	double from = micro_now(), now;
	struct kvsteer_prompt prompt;
	uint64_t bytes = 0;
	int err;

	if (!ids)
		return -ENOMEM;
	for (uint32_t i = 0; i < TOKENS; i++)
		ids[i] = i * 2654435761u >> 15;
	do {
		err = kvsteer_tokens(ids, TOKENS, 0, NULL, &prompt);
		if (err)
			return err;
		bytes += TOKENS * sizeof(*ids);
		now = micro_now();
	} while (now - from < m->seconds);
	micro_add(m, "hash_tokens_gb_s", bytes / (now - from) / 1e9);
	return 0;
}

int micro_hash(struct micro *m)
{
	int err = hash_body(m);

	return err ? err : hash_tokens(m);
}

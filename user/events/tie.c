// SPDX-License-Identifier: BSD-2-Clause
#include "events/tie.h"

#include <stdlib.h>
#include <sys/random.h>

struct tie {
	struct kv_tie is;
	uint32_t next; /* in its bucket: index + 1, 0: none */
};

struct kv_ties {
	struct tie *ties;
	uint32_t *heads;
	uint32_t max, buckets, n, at; /* at: the next one to be made, or made anew */
	uint64_t secret;	      /* chains of one bucket cannot be made on purpose */
};

static uint32_t *head_of(const struct kv_ties *t, uint64_t token)
{
	unsigned __int128 m = (unsigned __int128)(token ^ t->secret) * (t->secret | 1);

	return &t->heads[((uint64_t)m ^ (uint64_t)(m >> 64)) & (t->buckets - 1)];
}

struct kv_ties *kv_ties_new(size_t max_bytes)
{
	struct kv_ties *t = calloc(1, sizeof(*t));
	size_t max = max_bytes / (sizeof(struct tie) + 2 * sizeof(uint32_t));

	if (!t)
		return NULL;
	t->max = max < 1u << 30 ? max : 1u << 30;
	for (t->buckets = 1; t->buckets <= t->max / 2; t->buckets *= 2)
		;
	t->ties = calloc(t->max, sizeof(*t->ties));
	t->heads = calloc(t->buckets, sizeof(*t->heads));
	if (t->max && t->ties && t->heads &&
	    getrandom(&t->secret, sizeof(t->secret), 0) == sizeof(t->secret))
		return t;
	kv_ties_free(t);
	return NULL;
}

void kv_ties_free(struct kv_ties *t)
{
	if (!t)
		return;
	free(t->ties);
	free(t->heads);
	free(t);
}

bool kv_ties_next(const struct kv_ties *t, uint64_t token, uint32_t *at, uint64_t *ret_text)
{
	uint32_t i = *at ? t->ties[*at - 1].next : *head_of(t, token);

	for (; i; i = t->ties[i - 1].next) {
		if (t->ties[i - 1].is.token != token)
			continue;
		*at = i;
		*ret_text = t->ties[i - 1].is.text;
		return true;
	}
	return false;
}

static void take_out(struct kv_ties *t, uint32_t i)
{
	uint32_t *link = head_of(t, t->ties[i].is.token);

	while (*link != i + 1)
		link = &t->ties[*link - 1].next;
	*link = t->ties[i].next;
	t->n--;
}

enum kv_tied kv_ties_add(struct kv_ties *t, uint64_t token, uint64_t text, struct kv_tie *ret_old)
{
	bool full = t->n == t->max;
	uint32_t at = 0, n = 0, *head;
	uint64_t other;

	while (kv_ties_next(t, token, &at, &other))
		if (other == text || ++n == KV_TIES_EACH)
			return KV_TIED_NOT;
	if (full) {
		*ret_old = t->ties[t->at].is;
		take_out(t, t->at);
	}
	head = head_of(t, token);
	t->ties[t->at] = (struct tie){{token, text}, *head};
	*head = t->at + 1;
	t->at = (t->at + 1) % t->max;
	t->n++;
	return full ? KV_TIED_REPLACES : KV_TIED;
}

uint32_t kv_ties_count(const struct kv_ties *t)
{
	return t->n;
}

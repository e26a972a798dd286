/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cuts a JSON array into its elements as it comes in: what has come whole can be used, also where
 * the rest never comes.
 */
#ifndef KVSTEER_EVENTS_CUT_H
#define KVSTEER_EVENTS_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_cut {
	/* An object of the array, to be freed by who is called. It may still be no JSON inside. */
	void (*element)(void *ctx, char *text, size_t len);
	void *ctx;
	size_t limit; /* of one element; longer ones are left out */

	uint8_t state;
	bool escaped, over; /* over: the element is not kept */
	uint32_t depth;	    /* of brackets within the element */
	char *text;
	size_t len, capacity;
	uint64_t left_out; /* elements: too long, or no memory for them */
};

void kv_cut_init(struct kv_cut *c, size_t limit, void (*element)(void *ctx, char *text, size_t len),
		 void *ctx);
void kv_cut_exit(struct kv_cut *c);
/* 0, or -EBADMSG from where it is no array of objects. */
int kv_cut_feed(struct kv_cut *c, const char *data, size_t n);
/* The array has ended. */
bool kv_cut_whole(const struct kv_cut *c);

#endif

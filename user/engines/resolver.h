/* SPDX-License-Identifier: BSD-2-Clause */
/* c-ares in a libevent loop: questions out, messages in. */
#ifndef ENGINES_RESOLVER_H
#define ENGINES_RESOLVER_H

#include <event2/event.h>

#include "engines/dns_answer.h"

struct resolver;

enum resolved {
	RESOLVED,	  /* there is an answer, perhaps without records */
	RESOLVED_NOTHING, /* there is no such name, or no such record */
	RESOLVED_FAILED,
};

/* From within resolver_ask too. message: of RESOLVED. why: of RESOLVED_FAILED. The resolver must
 * not be freed within. */
typedef void resolver_callback(void *arg, enum resolved result, const unsigned char *message,
			       size_t len, const char *why);

/* 0, or -errno. */
int resolver_new(struct event_base *base, const char *servers, __u32 timeout_ms,
		 struct resolver **ret);
/* Questions in progress end without a call. */
void resolver_free(struct resolver *r);
void resolver_ask(struct resolver *r, const char *name, enum dns_type type,
		  resolver_callback *callback, void *arg);

#endif

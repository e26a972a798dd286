/* SPDX-License-Identifier: BSD-2-Clause */
/* What request.c and request_read.c share. */
#ifndef AGENT_REQUEST_PRIVATE_H
#define AGENT_REQUEST_PRIVATE_H

#include "agent/client.h"

/* The whole request is here. */
void request_ready(struct client *c);
/* The entry has just been taken: it knows why the request came to us. */
void request_trace_begin(struct client *c);

#endif

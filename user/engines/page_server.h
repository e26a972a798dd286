/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Serves pages over HTTP, for scrapers and orchestrators: GET and HEAD, a connection per request,
 * few connections at a time, and a short time for each, whoever sends whatever.
 */
#ifndef ENGINES_PAGE_SERVER_H
#define ENGINES_PAGE_SERVER_H

#include <event2/event.h>

#include "common/addr.h"
#include "engines/page.h"

#define PAGE_SERVER_CONNS 32 /* a further one ends the oldest */
#define PAGE_SERVER_MS 5000

struct page_server;

/* 0, or -errno (prints nothing). page: called for each request; path: without its query. */
int page_server_open(struct event_base *base, const struct kv_addr *listen,
		     struct page (*page)(void *arg, const char *path), void *arg,
		     struct page_server **ret);
void page_server_close(struct page_server *s);
/* The address that it listens on, port 0 replaced by the one that it got. */
struct kv_addr page_server_address(const struct page_server *s);

#endif

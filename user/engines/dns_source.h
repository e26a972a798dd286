/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Engines that a DNS name stands for: A and AAAA records with a port given, or SRV records. Asked
 * again when their time to live is over. A round of questions of which one fails takes nothing
 * away, and one without any answer changes nothing.
 */
#ifndef ENGINES_DNS_SOURCE_H
#define ENGINES_DNS_SOURCE_H

#include <event2/event.h>

#include "engines/address_set.h"

struct dns_source;

struct dns_options {
	const char *name;    /* fully qualified */
	__u16 port;	     /* of A and AAAA; 0: SRV */
	const char *servers; /* "ADDRESS:PORT,…"; NULL: those of resolv.conf */
	__u32 timeout_ms;    /* of one try; there are two per server */
	__u32 least_ms;	     /* between two rounds, however short the time to live … */
	__u32 most_ms;	     /* … or long; also after failures */
	/* The whole set, whenever it is another one; the source may be freed within. */
	void (*changed)(void *arg, const struct address_set *set);
	/* A round has ended, whatever came of it; before changed. NULL: not asked for. */
	void (*ended)(void *arg);
	/* From before, kept until answers say otherwise; NULL: none. */
	const struct address_set *known;
	void *arg;
};

struct dns_stats {
	__u64 rounds;
	__u64 failures; /* rounds with a question that failed */
	__u64 empty;	/* rounds without any address */
	__u64 changes;
	__u64 answered_ns; /* when the last good round ended; 0: there was none */
	__u32 failing;	   /* rounds without one, one after the other, to the last */
	char why[96];	   /* of the last of them */
};

/* 0, or -errno. */
int dns_source_new(struct event_base *base, const struct dns_options *options,
		   struct dns_source **ret);
void dns_source_free(struct dns_source *s);
const struct dns_stats *dns_source_stats(const struct dns_source *s);

#endif

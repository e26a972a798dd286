/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads DNS messages: the addresses or services in an answer, and for how long they hold. */
#ifndef ENGINES_DNS_ANSWER_H
#define ENGINES_DNS_ANSWER_H

#include <stddef.h>

#include "common/addr.h"

#define DNS_MOST 256 /* further answers are passed over */
#define DNS_NAME_MAX 256

enum dns_type { DNS_A = 1, DNS_AAAA = 28, DNS_SRV = 33 };

struct dns_srv {
	char target[DNS_NAME_MAX];
	__u16 port; /* host byte order */
	__u16 priority;
};

struct dns_answer {
	__u32 ttl; /* seconds, the least of all */
	__u32 n;
	union {
		__u32 addr[DNS_MOST][4]; /* A, AAAA: IPv4 ones mapped */
		struct dns_srv srv[DNS_MOST];
	};
};

/* 0: n may be 0, that is an answer too. -EBADMSG: no DNS message. */
int dns_answer_read(const unsigned char *message, size_t len, enum dns_type type,
		    struct dns_answer *ret);

#endif

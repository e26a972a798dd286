// SPDX-License-Identifier: BSD-2-Clause
/* By the C library's own parser of messages: c-ares' older one does not tell the TTLs of SRV. */
#include "engines/dns_answer.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <string.h>

#define SRV_FIXED 6 /* bytes before the target */

static int read_address(const ns_rr *rr, struct dns_answer *ret)
{
	__u32 *to = ret->addr[ret->n];

	if (ns_rr_type(*rr) == ns_t_a && ns_rr_rdlen(*rr) == 4) {
		to[0] = to[1] = 0;
		to[2] = htonl(0xffff);
		memcpy(&to[3], ns_rr_rdata(*rr), 4);
	} else if (ns_rr_type(*rr) == ns_t_aaaa && ns_rr_rdlen(*rr) == 16) {
		memcpy(to, ns_rr_rdata(*rr), 16);
	} else {
		return -EBADMSG;
	}
	return 0;
}

static int read_srv(const ns_msg *m, const ns_rr *rr, struct dns_answer *ret)
{
	struct dns_srv *srv = &ret->srv[ret->n];
	const unsigned char *data = ns_rr_rdata(*rr);

	if (ns_rr_rdlen(*rr) <= SRV_FIXED ||
	    ns_name_uncompress(ns_msg_base(*m), ns_msg_end(*m), data + SRV_FIXED, srv->target,
			       sizeof(srv->target)) < 0)
		return -EBADMSG;
	srv->priority = ns_get16(data);
	srv->port = ns_get16(data + 4);
	return 0;
}

int dns_answer_read(const unsigned char *message, size_t len, enum dns_type type,
		    struct dns_answer *ret)
{
	ns_msg m;
	ns_rr rr;

	ret->n = 0;
	ret->ttl = 0;
	if (len > NS_MAXMSG || ns_initparse(message, len, &m))
		return -EBADMSG;
	for (int i = 0; i < ns_msg_count(m, ns_s_an) && ret->n < DNS_MOST; i++) {
		__u32 ttl;

		if (ns_parserr(&m, ns_s_an, i, &rr))
			return -EBADMSG;
		/* aliases count for the time only */
		ttl = ns_rr_ttl(rr) > INT32_MAX ? 0 : ns_rr_ttl(rr); /* RFC 2181, section 8 */
		if (!i || ttl < ret->ttl)
			ret->ttl = ttl;
		if (ns_rr_class(rr) != ns_c_in || (int)ns_rr_type(rr) != (int)type)
			continue;
		if (type == DNS_SRV ? read_srv(&m, &rr, ret) : read_address(&rr, ret))
			return -EBADMSG;
		/* "." is: no such service; port 0 cannot be connected to */
		if (type != DNS_SRV ||
		    (ret->srv[ret->n].port && strcmp(ret->srv[ret->n].target, ".") &&
		     *ret->srv[ret->n].target))
			ret->n++;
	}
	return 0;
}

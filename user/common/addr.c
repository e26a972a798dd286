// SPDX-License-Identifier: BSD-2-Clause
#include "common/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const __u32 v4_prefix = 0xffff; /* third word of ::ffff:a.b.c.d */

static int parse_port(const char *text, __u16 *ret)
{
	unsigned long port;

	/* strtoul takes signs and white space; a port has neither. */
	if (!*text || strspn(text, "0123456789") != strlen(text))
		return -EINVAL;
	errno = 0;
	port = strtoul(text, NULL, 10);
	if (errno || port < 1 || port > 65535)
		return -ERANGE;
	*ret = htons(port);
	return 0;
}

static int parse_host(const char *host, struct kv_addr *ret)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (!*host || !strcmp(host, "*"))
		return 0;
	if (host[0] == '[') {
		char inner[INET6_ADDRSTRLEN];
		size_t len = strlen(host);

		if (len < 3 || host[len - 1] != ']' || len - 2 >= sizeof(inner))
			return -EINVAL;
		memcpy(inner, host + 1, len - 2);
		inner[len - 2] = 0;
		if (inet_pton(AF_INET6, inner, &v6) != 1)
			return -EINVAL;
		memcpy(ret->addr, &v6, sizeof(v6));
		return 0;
	}
	if (inet_pton(AF_INET, host, &v4) != 1)
		return -EINVAL;
	if (v4.s_addr == INADDR_ANY)
		return 0;
	ret->addr[2] = htonl(v4_prefix);
	ret->addr[3] = v4.s_addr;
	return 0;
}

int kv_addr_parse(const char *text, struct kv_addr *ret)
{
	char host[KV_ADDR_TEXT];
	struct kv_addr a = {0};
	const char *colon = strrchr(text, ':');
	int err;

	if (!colon || (size_t)(colon - text) >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, colon - text);
	host[colon - text] = 0;
	err = parse_host(host, &a);
	if (!err)
		err = parse_port(colon + 1, &a.port);
	if (err)
		return err;
	*ret = a;
	return 0;
}

char *kv_addr_format(const struct kv_addr *a, char *buf, size_t size)
{
	char host[INET6_ADDRSTRLEN];
	unsigned int port = ntohs(a->port);

	if (kv_addr_is_any(a)) {
		snprintf(buf, size, "*:%u", port);
	} else if (kv_addr_is_v4(a)) {
		inet_ntop(AF_INET, &a->addr[3], host, sizeof(host));
		snprintf(buf, size, "%s:%u", host, port);
	} else {
		inet_ntop(AF_INET6, a->addr, host, sizeof(host));
		snprintf(buf, size, "[%s]:%u", host, port);
	}
	return buf;
}

bool kv_addr_is_v4(const struct kv_addr *a)
{
	return !a->addr[0] && !a->addr[1] && a->addr[2] == htonl(v4_prefix);
}

bool kv_addr_is_any(const struct kv_addr *a)
{
	return !a->addr[0] && !a->addr[1] && !a->addr[2] && !a->addr[3];
}

bool kv_addr_equal(const struct kv_addr *a, const struct kv_addr *b)
{
	return !memcmp(a->addr, b->addr, sizeof(a->addr)) && a->port == b->port;
}

socklen_t kv_addr_to_sockaddr(const struct kv_addr *a, struct sockaddr_storage *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (kv_addr_is_v4(a)) {
		struct sockaddr_in *sin = (struct sockaddr_in *)ret;

		sin->sin_family = AF_INET;
		sin->sin_port = a->port;
		sin->sin_addr.s_addr = a->addr[3];
		return sizeof(*sin);
	}
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)ret;

	sin6->sin6_family = AF_INET6;
	sin6->sin6_port = a->port;
	memcpy(&sin6->sin6_addr, a->addr, sizeof(a->addr));
	return sizeof(*sin6);
}

int kv_addr_from_sockaddr(const struct sockaddr *sa, struct kv_addr *ret)
{
	struct kv_addr a = {0};

	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *sin = (const struct sockaddr_in *)sa;

		a.port = sin->sin_port;
		if (sin->sin_addr.s_addr != INADDR_ANY) {
			a.addr[2] = htonl(v4_prefix);
			a.addr[3] = sin->sin_addr.s_addr;
		}
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *sin6 = (const struct sockaddr_in6 *)sa;

		a.port = sin6->sin6_port;
		memcpy(a.addr, &sin6->sin6_addr, sizeof(a.addr));
	} else {
		return -EAFNOSUPPORT;
	}
	*ret = a;
	return 0;
}

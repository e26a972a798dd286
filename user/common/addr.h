/* SPDX-License-Identifier: BSD-2-Clause */
/* Address and port, stored as in the maps: IPv6, IPv4 ones mapped, network byte order. */
#ifndef KVSTEER_ADDR_H
#define KVSTEER_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include <kvsteer/shared.h>

/* Same layout as struct kv_listen: all-zero addr is any address, of both families. */
struct kv_addr {
	__u32 addr[4];
	__u16 port;
	__u16 zero;
};
_Static_assert(sizeof(struct kv_addr) == sizeof(struct kv_listen), "copied into kv_listen");

#define KV_ADDR_TEXT 56 /* room for any address as text */
#define KV_ADDR_EXPECTED "IPV4:PORT or [IPV6]:PORT"

/* "1.2.3.4:80", "[::1]:80"; ":80", "*:80", "0.0.0.0:80" and "[::]:80" are any address.
 * Numeric only. -EINVAL: not an address; -ERANGE: port not in 1 … 65535. */
int kv_addr_parse(const char *text, struct kv_addr *ret);
/* Writes at most size bytes and returns buf; any address is "*:80". */
char *kv_addr_format(const struct kv_addr *a, char *buf, size_t size);

bool kv_addr_is_v4(const struct kv_addr *a);
bool kv_addr_is_any(const struct kv_addr *a);
bool kv_addr_equal(const struct kv_addr *a, const struct kv_addr *b);

/* IPv4 ones become AF_INET, any address AF_INET6 (bind it with IPV6_V6ONLY off). */
socklen_t kv_addr_to_sockaddr(const struct kv_addr *a, struct sockaddr_storage *ret);
/* -EAFNOSUPPORT for other families. */
int kv_addr_from_sockaddr(const struct sockaddr *sa, struct kv_addr *ret);

#endif

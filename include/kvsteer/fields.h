/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a request head can turn out to be: lanes and reasons; and the names of session headers.
 */
#ifndef KVSTEER_FIELDS_H
#define KVSTEER_FIELDS_H

#include "scan.h"

enum kv_lane {
	KV_LANE_EXPRESS, /* parsed, inside the strict subset: the kernel may serve it */
	KV_LANE_AGENT,	 /* not whole yet, or valid and unusual */
	KV_LANE_REFUSE,	 /* malformed or not supported: answer the reason's status and close */
};

/* X(name, status of the answer, text). Status 0: nothing to refuse. */
/* clang-format off */
#define KV_REASONS(X)                                                                              \
	X(none, 0, "ok")                                                                           \
	/* lane AGENT */                                                                           \
	X(head_incomplete, 0, "request head not complete")                                         \
	X(http_1_0, 0, "HTTP/1.0 request")                                                         \
	X(chunked_body, 0, "chunked request body")                                                 \
	X(upgrade, 0, "Upgrade offered")                                                           \
	X(absolute_target, 0, "absolute-form request target")                                      \
	X(asterisk_target, 0, "asterisk-form request target")                                      \
	/* lane REFUSE */                                                                          \
	X(bad_request_line, 400, "malformed request line")                                         \
	X(bad_target, 400, "malformed request target")                                             \
	X(bad_version, 505, "HTTP version not supported, use HTTP/1.1")                            \
	X(method_unknown, 501, "method not supported")                                             \
	X(line_folded, 400, "folded header line")                                                  \
	X(bad_field_name, 400, "malformed header name")                                            \
	X(bad_field_value, 400, "control character in a header value")                             \
	X(bare_cr, 400, "CR without LF in the request head")                                       \
	X(bare_lf, 400, "LF without CR in the request head")                                       \
	X(host_missing, 400, "no Host header")                                                     \
	X(host_repeated, 400, "more than one Host header")                                         \
	X(length_malformed, 400, "malformed Content-Length")                                       \
	X(length_repeated, 400, "more than one Content-Length")                                    \
	X(length_too_large, 413, "Content-Length too large")                                       \
	X(length_and_coding, 400, "both Content-Length and Transfer-Encoding")                     \
	X(coding_unknown, 501, "Transfer-Encoding other than chunked")                             \
	X(coding_repeated, 400, "more than one Transfer-Encoding")                                 \
	X(coding_in_1_0, 400, "Transfer-Encoding in an HTTP/1.0 request")                          \
	X(tenant_repeated, 400, "more than one tenant header")                                     \
	X(tenant_malformed, 400, "tenant header empty, too long, or named by Connection")          \
	X(expect_unknown, 417, "expectation other than 100-continue")                              \
	X(head_too_large, 431, "request head over 8192 bytes")                                     \
	X(too_many_fields, 431, "more than 64 header fields")
/* clang-format on */

enum kv_reason {
#define KV_REASON_ENUM(name, status, text) KV_REASON_##name,
	KV_REASONS(KV_REASON_ENUM)
#undef KV_REASON_ENUM
		KV_REASON_MAX,
};

#define KV_HEAD_MAX 8192
#define KV_FIELDS_MAX 64

/* ---- names of session headers and of the tenant's ------------------------------------- */

#define KV_NAMES_MAX 16
#define KV_FIELD_NAME_MAX 31 /* bytes; zero padded to 32, so the padding ends the name */

struct kv_names {
	__u64 lengths; /* bit n: there is a name of n bytes */
	__u32 n;
	__u32 zero;
	__u64 name[KV_NAMES_MAX][4]; /* lower case, zero padded */
	__u64 tenant[4];	     /* zero: no tenancy */
	__u64 secret[4];	     /* two keys (tenant.h) */
};

#ifndef __bpf__

#include <errno.h>

struct kv_reason_info {
	const char *name;
	int status;
	const char *text;
};

static inline const struct kv_reason_info *kv_reason_info(unsigned int reason)
{
	static const struct kv_reason_info infos[] = {
#define KV_REASON_INFO(name, status, text) {#name, status, text},
		KV_REASONS(KV_REASON_INFO)
#undef KV_REASON_INFO
	};

	return &infos[reason < KV_REASON_MAX ? reason : KV_REASON_none];
}

/* -EINVAL: not a header name of 1 … 31 bytes, -EPERM: a header that the parser gives a meaning of
 * its own. */
static inline int kv_name_lower(const char *name, char lower[KV_FIELD_NAME_MAX + 1])
{
	static const char *const taken[] = {"host",	      "upgrade",	   "kv-prefix",
					    "content-length", "transfer-encoding", "expect",
					    "connection"};
	size_t n = strlen(name);

	if (!n || n > KV_FIELD_NAME_MAX)
		return -EINVAL;
	memset(lower, 0, KV_FIELD_NAME_MAX + 1);
	for (size_t i = 0; i < n; i++) {
		if (!(kv_class[(__u8)name[i]] & KV_CLASS_TOKEN))
			return -EINVAL;
		lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? name[i] | 0x20 : name[i];
	}
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		if (!strcmp(lower, taken[i]))
			return -EPERM;
	return 0;
}

/* Adds a session header by its name, in any case. As above, and -ENOSPC: there are 16. */
static inline int kv_names_add(struct kv_names *names, const char *name)
{
	char lower[KV_FIELD_NAME_MAX + 1];
	int err = kv_name_lower(name, lower);

	if (err)
		return err;
	if (names->n >= KV_NAMES_MAX)
		return -ENOSPC;
	memcpy(names->name[names->n++], lower, sizeof(lower));
	names->lengths |= 1ull << strlen(name);
	return 0;
}

/* The header that names the tenant: tenancy is on. As kv_names_add, and -EPERM for a session
 * header's name. The secret is the caller's to fill. */
static inline int kv_names_set_tenant(struct kv_names *names, const char *name)
{
	char lower[KV_FIELD_NAME_MAX + 1];
	int err = kv_name_lower(name, lower);

	for (__u32 i = 0; !err && i < names->n; i++)
		if (!memcmp(names->name[i], lower, sizeof(lower)))
			err = -EPERM;
	if (err)
		return err;
	memcpy(names->tenant, lower, sizeof(lower));
	names->lengths |= 1ull << strlen(name);
	return 0;
}

/* What clients send today, and other gateways read. */
static inline void kv_names_default(struct kv_names *names)
{
	static const char *const list[] = {
		"x-session-id", "x-session-affinity", "x-claude-code-session-id", "session-id",
		"session_id",	"x-smg-routing-key",  "x-dynamo-session-id",
	};

	memset(names, 0, sizeof(*names));
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		kv_names_add(names, list[i]);
}

#endif /* __bpf__ */

#endif /* KVSTEER_FIELDS_H */

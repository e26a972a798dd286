/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where kernels differ: what one of 6.1 … 6.18 has and another has not. */
#ifndef KVSTEER_COMPAT_BPF_H
#define KVSTEER_COMPAT_BPF_H

#include <kvsteer/types.h>

struct tcp_sock___usec {
	__u8 tcp_usec_ts : 1;
} __attribute__((preserve_access_index));

/* Does this socket count its timestamps in microseconds (a route's feature, since 6.7)? Ours are in
 * milliseconds. */
KV_INLINE bool kv_compat_usec_ts(struct tcp_sock *tp)
{
	struct tcp_sock___usec *usec = (void *)tp;

	return bpf_core_field_exists(usec->tcp_usec_ts) &&
	       BPF_CORE_READ_BITFIELD_PROBED(usec, tcp_usec_ts);
}

#endif /* KVSTEER_COMPAT_BPF_H */

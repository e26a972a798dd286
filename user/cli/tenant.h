/* SPDX-License-Identifier: BSD-2-Clause */
/* Lookups of hashes on a gateway with tenancy: whose? */
#ifndef KVSTEER_CLI_TENANT_H
#define KVSTEER_CLI_TENANT_H

#include <kvsteer/request.h>

#include "cli.h"

struct tenant {
	bool on; /* the gateway has tenancy */
	struct kv_sip sip;
};

/* name: what the tenancy header says; NULL: there is none. 0, or an exit code after the error was
 * told. */
int tenant_of(struct cli *cli, const struct kv_pins *pins, const char *name, struct tenant *ret);

static inline __u64 tenant_hash(const struct tenant *tenant, __u64 hash)
{
	return tenant->on ? kv_tenant_mix(&tenant->sip, hash) : hash;
}

#endif

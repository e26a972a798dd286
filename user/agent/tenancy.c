// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "kvsteer.skel.h"

#include "agent/tenancy.h"
#include "common/log.h"

/* Maps that another agent has filled hold hashes under its keys: those are kept. */
static int tenancy_secret(struct agent *agent)
{
	struct kv_names *names = &agent->names, old = {};
	static const __u64 none[4];
	__u32 zero = 0;
	int err;

	if (!bpf_map_lookup_elem(bpf_map__fd(agent->dp.skel->maps.kv_names), &zero, &old) &&
	    memcmp(old.secret, none, sizeof(none))) {
		memcpy(names->secret, old.secret, sizeof(names->secret));
	} else if (getrandom(names->secret, sizeof(names->secret), 0) != sizeof(names->secret)) {
		err = -errno;
		kv_err("no random numbers for the tenants' keys: %s", strerror(-err));
		return err;
	}
	explicit_bzero(&old, sizeof(old));
	return 0;
}

int tenancy_open(struct agent *agent)
{
	const char *header = agent->config->tenant_header;
	int err;

	if (!*header)
		return 0;
	err = kv_names_set_tenant(&agent->names, header);
	if (err) {
		kv_err("tenancy header %s: not a header name that can be used for tenants", header);
		return err;
	}
	err = tenancy_secret(agent);
	if (!err)
		kv_info("tenancy: by the header %s, which clients must not be able to set", header);
	return err;
}

void tenancy_apply(const struct agent *agent, const struct kv_request *head, struct kv_query *query)
{
	if (!kv_tenancy(&agent->names))
		return;
	for (__u32 i = 0; i < query->n_rungs; i++)
		query->rungs[i].hash = kv_tenant_mix(&head->tenant, query->rungs[i].hash);
}

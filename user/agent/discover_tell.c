// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <string.h>

#include "agent/discover_private.h"
#include "agent/service.h"
#include "common/config_discover.h"
#include "common/log.h"

/* One that is removed keeps its place until its last request has ended: no news by itself. */
#define NO_ROOM_TOLD (3 * SECOND)

void discover_note(const struct discovered *d)
{
	const struct dns_stats *stats = dns_source_stats(d->source);
	__u32 id = service_find(d->agent, d->service);
	struct kv_service_found *found;

	if (id == KV_NONE)
		return;
	found = &d->agent->dp.services[id].found;
	/* Another agent's sums are not ours; what it has found is. */
	kv_write_once(found->rounds, stats->rounds);
	kv_write_once(found->failures, stats->failures + stats->empty);
	kv_write_once(found->failing, stats->failing);
	if (stats->answered_ns)
		kv_write_once(found->answered_at, stats->answered_ns);
	kv_write_once(found->engines, d->set.n);
	kv_write_once(found->passed_over, d->no_room + d->refused.n);
	snprintf(found->why, sizeof(found->why), "%s", stats->why);
}

void discover_complain(struct discovered *d, __u64 now_ns)
{
	if (!d->no_room) {
		if (d->no_room_told)
			kv_info("discovery: %s: there is room for all %u engines again",
				d->how.name, d->set.n);
		d->no_room_told = false;
		d->no_room_since_ns = 0;
		return;
	}
	if (!d->no_room_since_ns)
		d->no_room_since_ns = now_ns;
	if (d->no_room_told || now_ns - d->no_room_since_ns < NO_ROOM_TOLD)
		return;
	kv_warn("discovery: %s: %u of its %u engines get no requests: max_backends = %u are in "
		"use: "
		"raise it",
		d->how.name, d->no_room, d->set.n, d->agent->dp.max_backends);
	d->no_room_told = true;
}

void discover_tell(const struct agent *agent, __u32 id, yyjson_mut_doc *doc, yyjson_mut_val *out)
{
	const struct kv_backend *backend = &agent->dp.backends[id];
	const struct kv_service *service = &agent->dp.services[backend->service];

	yyjson_mut_obj_add_str(doc, out, "from", kv_origin_name(backend->origin));
	if (backend->origin == KV_ORIGIN_DNS)
		yyjson_mut_obj_add_strcpy(doc, out, "dns", service->discover.name);
}

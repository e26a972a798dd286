// SPDX-License-Identifier: BSD-2-Clause
#include "common/affinity.h"

#include <stdio.h>

#include "common/config.h"
#include "common/worth.h"

static bool measured(const struct kv_backend *backend)
{
	return kv_read_once(backend->worth_predicted);
}

static unsigned int found_percent(const struct kv_backend *backend)
{
	__u64 predicted = kv_read_once(backend->worth_predicted);

	return predicted ? kv_read_once(backend->worth_found) * 100 / predicted : 0;
}

const char *affinity_state(__u32 affinity, const struct kv_backend *backend)
{
	if (affinity == KV_AFFINITY_OFF)
		return "off";
	if (affinity == KV_AFFINITY_FULL)
		return "held full";
	if (!kv_read_once(backend->discount))
		return "full";
	return found_percent(backend) < WORTH_LOW ? "down" : "part";
}

const char *affinity_short(__u32 affinity, const struct kv_backend *backend,
			   char buf[AFFINITY_TEXT])
{
	const char *state = affinity_state(affinity, backend);

	if (measured(backend))
		snprintf(buf, AFFINITY_TEXT, "%s %u%%", state, found_percent(backend));
	else if (affinity == KV_AFFINITY_AUTO)
		snprintf(buf, AFFINITY_TEXT, "not measured");
	else
		snprintf(buf, AFFINITY_TEXT, "%s, not measured", state);
	return buf;
}

const char *affinity_why(__u32 affinity, const struct kv_backend *backend, char buf[AFFINITY_TEXT])
{
	const char *why = affinity == KV_AFFINITY_OFF	 ? "affinity is switched off"
			  : affinity == KV_AFFINITY_FULL ? "affinity is held at full"
			  : !backend->discount		 ? "what it is believed to hold counts"
			  : found_percent(backend) < WORTH_LOW ? "its cache has not been worth it"
							       : "it counts by the share found";

	if (measured(backend))
		snprintf(buf, AFFINITY_TEXT, "%s: %u %% of what was predicted was found", why,
			 found_percent(backend));
	else
		snprintf(buf, AFFINITY_TEXT, "%s: not measured", why);
	return buf;
}

void affinity_add_json(yyjson_mut_doc *doc, yyjson_mut_val *obj, __u32 affinity,
		       const struct kv_backend *backend)
{
	yyjson_mut_val *to = yyjson_mut_obj_add_obj(doc, obj, "affinity");
	__u32 discount = kv_affinity_discount(affinity, backend);
	char why[AFFINITY_TEXT];

	yyjson_mut_obj_add_str(doc, to, "configured", kv_affinity_name(affinity));
	yyjson_mut_obj_add_str(doc, to, "state", affinity_state(affinity, backend));
	yyjson_mut_obj_add_bool(doc, to, "counts", discount < KV_DISCOUNT_ALL);
	yyjson_mut_obj_add_uint(doc, to, "counts_percent", KV_DISCOUNT_ALL - discount);
	yyjson_mut_obj_add_bool(doc, to, "measured", measured(backend));
	yyjson_mut_obj_add_uint(doc, to, "predicted_tokens", backend->worth_predicted);
	yyjson_mut_obj_add_uint(doc, to, "found_tokens", backend->worth_found);
	yyjson_mut_obj_add_strcpy(doc, to, "text", affinity_why(affinity, backend, why));
}

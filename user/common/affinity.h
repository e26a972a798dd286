/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether what a backend is believed to hold counts, and what has been measured of its worth: as
 * status, explain and backend show tell it. */
#ifndef COMMON_AFFINITY_H
#define COMMON_AFFINITY_H

#include <yyjson.h>

#include <kvsteer/shared.h>

#define AFFINITY_TEXT 160

/* "full", "part", "down"; as the configuration holds it "held full", "off". */
const char *affinity_state(__u32 affinity, const struct kv_backend *backend);
/* The same with what was measured, in a few letters: "down 3%". */
const char *affinity_short(__u32 affinity, const struct kv_backend *backend,
			   char buf[AFFINITY_TEXT]);
/* The same as half a sentence. */
const char *affinity_why(__u32 affinity, const struct kv_backend *backend, char buf[AFFINITY_TEXT]);
void affinity_add_json(yyjson_mut_doc *doc, yyjson_mut_val *obj, __u32 affinity,
		       const struct kv_backend *backend);

#endif

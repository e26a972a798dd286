// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kvsteer/ladder.h"
#include "lib/rungs.h"

#define RUNG_MAX 28 /* bytes of ",4294967295:0123456789abcdef" */

void kv_rungs(const struct kv_chain *chain, const uint32_t *boundaries, uint32_t n_boundaries,
	      struct kvsteer_prompt *ret_prompt)
{
	__u32 depths[KV_MAX_RUNGS], n = kv_ladder(chain->n, boundaries, n_boundaries, depths);

	ret_prompt->total = (chain->bytes + 3) / 4;
	ret_prompt->block = chain->block / 4;
	ret_prompt->seed = chain->seed;
	ret_prompt->n_rungs = n;
	for (__u32 i = 0; i < n; i++) {
		ret_prompt->rungs[i].hash = chain->hashes[depths[i] - 1];
		ret_prompt->rungs[i].depth = depths[i] * ret_prompt->block;
	}
}

int kvsteer_header(const struct kvsteer_prompt *prompt, char *buf, size_t size)
{
	char rungs[KVSTEER_MAX_RUNGS * RUNG_MAX + 1], *first = rungs + sizeof(rungs) - 1;
	size_t limit = size < KVSTEER_HEADER_SIZE ? size : KVSTEER_HEADER_SIZE;
	char total[16];
	size_t total_len = snprintf(total, sizeof(total), "1;%" PRIu32, prompt->total);

	if (size)
		*buf = '\0';
	if (!prompt->n_rungs)
		return 0;
	/* From the deepest rung up, as many as fit. */
	*first = '\0';
	for (uint32_t i = prompt->n_rungs; i-- > 0;) {
		char rung[RUNG_MAX + 1];
		size_t len = snprintf(rung, sizeof(rung), ",%" PRIu32 ":%016" PRIx64,
				      prompt->rungs[i].depth, prompt->rungs[i].hash);

		if (total_len + (rungs + sizeof(rungs) - first) + len > limit)
			break;
		first -= len;
		memcpy(first, rung, len);
	}
	if (!*first)
		return -ENOSPC;
	return snprintf(buf, size, "%s%s", total, first);
}

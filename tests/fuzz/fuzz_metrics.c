// SPDX-License-Identifier: BSD-2-Clause
/*
 * Any bytes as an engine's metrics page, in pieces of any size: the same result as in one piece,
 * and nothing absurd.
 */
#include <stdint.h>
#include <stdlib.h>

#include "engines/metric_names.c"
#include "engines/metrics.c"
#include "engines/prom.c"

static void require(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct metrics_reader whole, parts;
	struct engine_load a = {0}, b = {0};
	size_t piece = size ? 1 + data[0] % 23 : 1;
	int err;

	metrics_begin(&whole);
	metrics_feed(&whole, (const char *)data, size);
	err = metrics_end(&whole, &a);
	metrics_begin(&parts);
	for (size_t at = 0; at < size; at += piece)
		metrics_feed(&parts, (const char *)data + at,
			     size - at < piece ? size - at : piece);
	require(metrics_end(&parts, &b) == err);
	require(!memcmp(&a, &b, sizeof(a)));
	require(whole.prom.samples == parts.prom.samples);
	require(whole.prom.malformed == parts.prom.malformed);
	require(!err || err == -ENODATA || (err == -EFBIG && size > METRICS_PAGE_MAX));
	require(a.cache_use >= 0 && a.cache_use <= 1);
	require(a.hits <= COUNT_MAX && a.capacity <= COUNT_MAX && a.running <= COUNT_MAX);
	require(!(a.has & LOAD_CAPACITY) || a.capacity);
	return 0;
}

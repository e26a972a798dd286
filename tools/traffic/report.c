// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "traffic.h"
#include "common/cleanup.h"

static uint32_t microseconds(uint64_t ns)
{
	return ns / 1000 > UINT32_MAX ? UINT32_MAX : ns / 1000;
}

int traffic_record(struct traffic_result *r, uint64_t latency_ns, uint64_t first_ns)
{
	void *p;

	if (r->n == r->room) {
		r->room = r->room ? r->room * 2 : 1 << 14;
		p = reallocarray(r->latency_us, r->room, sizeof(*r->latency_us));
		if (!p)
			return -ENOMEM;
		r->latency_us = p;
		p = reallocarray(r->first_us, r->room, sizeof(*r->first_us));
		if (!p)
			return -ENOMEM;
		r->first_us = p;
	}
	r->latency_us[r->n] = microseconds(latency_ns);
	r->first_us[r->n++] = microseconds(first_ns);
	return 0;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The smallest value that the given share of all does not exceed. */
static double percentile_ms(const uint32_t *sorted, uint64_t n, double share)
{
	uint64_t i = share * n;

	return n ? sorted[i < n ? i : n - 1] / 1e3 : 0;
}

static void add_times(yyjson_mut_doc *doc, yyjson_mut_val *root, const char *name, uint32_t *us,
		      uint64_t n)
{
	yyjson_mut_val *o = yyjson_mut_obj_add_obj(doc, root, name);

	qsort(us, n, sizeof(*us), by_value);
	yyjson_mut_obj_add_real(doc, o, "p50", percentile_ms(us, n, 0.5));
	yyjson_mut_obj_add_real(doc, o, "p99", percentile_ms(us, n, 0.99));
	yyjson_mut_obj_add_real(doc, o, "max", percentile_ms(us, n, 1));
}

static uint64_t add_refused(yyjson_mut_doc *doc, yyjson_mut_val *root, struct traffic_result *r)
{
	yyjson_mut_val *o = yyjson_mut_obj_add_obj(doc, root, "refused");
	uint64_t sum = 0;
	char status[12];

	for (int i = 0; i < 600; i++) {
		if (!r->refused[i])
			continue;
		snprintf(status, sizeof(status), "%d", i);
		yyjson_mut_obj_add(o, yyjson_mut_strcpy(doc, status),
				   yyjson_mut_uint(doc, r->refused[i]));
		sum += r->refused[i];
	}
	return sum;
}

int traffic_report(const struct traffic_options *o, struct traffic_result *r)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc);
	_cleanup_free_ char *text = NULL;
	const struct {
		const char *name;
		uint64_t value;
	} counts[] = {
		{"requests", r->requests},
		{"ok", r->ok},
		{"aborted", r->aborted},
		{"half_closed", r->half_closed},
		{"broken", r->broken},
		{"unanswered", r->unanswered}, /* of the broken ones: without any byte */
		{"truncated", r->truncated},   /* … close-delimited, and too short */
		{"failed", r->failed},
		{"foreign_bytes", r->foreign_bytes},
		{"wrong_bytes", r->wrong_bytes},
		{"engine_foreign", r->engine_foreign},
		{"hung", r->hung},
		{"connect_failed", r->connect_failed},
		{"no_port", r->no_port}, /* of those: this side's ports were all in use */
		{"connections", r->connections},
		{"bytes_sent", r->bytes_sent},
		{"bytes_received", r->bytes_received},
	};
	uint64_t refused;

	yyjson_mut_doc_set_root(doc, root);
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		yyjson_mut_obj_add_uint(doc, root, counts[i].name, counts[i].value);
	refused = add_refused(doc, root, r);
	yyjson_mut_obj_add_real(doc, root, "seconds", r->seconds);
	yyjson_mut_obj_add_real(doc, root, "rate", r->requests / r->seconds);
	add_times(doc, root, "ttfb_ms", r->first_us, r->n);
	add_times(doc, root, "latency_ms", r->latency_us, r->n);
	text = yyjson_mut_write(doc, o->json ? 0 : YYJSON_WRITE_PRETTY, NULL);
	if (!text)
		return 2;
	puts(text);
	if (r->foreign_bytes || r->wrong_bytes || r->engine_foreign || r->failed || r->hung)
		return 1;
	return o->expect_all && (r->broken || refused || r->connect_failed);
}

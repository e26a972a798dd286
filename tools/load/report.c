// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "load.h"
#include "common/cleanup.h"

static const char *const error_names[LOAD_ERR_MAX] = {
	[LOAD_ERR_CONNECT] = "connect", [LOAD_ERR_RESET] = "reset",
	[LOAD_ERR_TIMEOUT] = "timeout", [LOAD_ERR_STATUS] = "status",
	[LOAD_ERR_ANSWER] = "answer",
};

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The smallest value that the given share of all does not exceed. */
static double percentile_us(const uint32_t *sorted, uint64_t n, double share)
{
	uint64_t i = share * n;

	return n ? sorted[i < n ? i : n - 1] / 1e3 : 0;
}

static void add_times(yyjson_mut_doc *doc, yyjson_mut_val *o, uint32_t *ns, uint64_t n,
		      const char *const keys[4])
{
	static const double shares[4] = {0.5, 0.9, 0.99, 0.999};

	qsort(ns, n, sizeof(*ns), by_value);
	for (int i = 0; i < 4; i++)
		yyjson_mut_obj_add_real(doc, o, keys[i], percentile_us(ns, n, shares[i]));
}

int load_report(const struct load_options *opt, const struct load_requests *q,
		struct load_result *r)
{
	static const char *const whole[] = {"p50_us", "p90_us", "p99_us", "p999_us"};
	static const char *const first[] = {"first_byte_p50_us", "first_byte_p90_us",
					    "first_byte_p99_us", "first_byte_p999_us"};
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	_cleanup_free_ char *text = NULL;
	double per = r->n ? r->n : 1;
	yyjson_mut_val *o, *kinds;
	uint64_t errors = 0;
	char hash[17];

	o = yyjson_mut_obj(doc);
	yyjson_mut_doc_set_root(doc, o);
	for (int i = 0; i < LOAD_ERR_MAX; i++)
		errors += r->errors[i];
	yyjson_mut_obj_add_uint(doc, o, "connections", opt->connections);
	yyjson_mut_obj_add_uint(doc, o, "body_bytes", q->body_bytes);
	yyjson_mut_obj_add_uint(doc, o, "requests", r->n);
	yyjson_mut_obj_add_uint(doc, o, "errors", errors);
	kinds = yyjson_mut_obj_add_obj(doc, o, "error_kinds");
	for (int i = 0; i < LOAD_ERR_MAX; i++)
		yyjson_mut_obj_add_uint(doc, kinds, error_names[i], r->errors[i]);
	if (errors)
		yyjson_mut_obj_add_str(doc, o, "first_error", r->example);
	yyjson_mut_obj_add_uint(doc, o, "reconnects", r->reconnects);
	yyjson_mut_obj_add_real(doc, o, "seconds", r->seconds);
	yyjson_mut_obj_add_real(doc, o, "rps", r->n / r->seconds);
	add_times(doc, o, r->latency_ns, r->n, whole);
	add_times(doc, o, r->first_ns, r->n, first);
	yyjson_mut_obj_add_uint(doc, o, "bytes_in", r->bytes_in);
	yyjson_mut_obj_add_uint(doc, o, "bytes_out", r->bytes_out);
	yyjson_mut_obj_add_uint(doc, o, "events", r->events);
	if (r->have_hash) {
		snprintf(hash, sizeof(hash), "%016" PRIx64, r->body_hash);
		yyjson_mut_obj_add_str(doc, o, "body_xxh3", hash);
	}
	yyjson_mut_obj_add_real(doc, o, "client_cpu_us_per_request", r->client_cpu_s * 1e6 / per);
	yyjson_mut_obj_add_real(doc, o, "watched_cpu_us_per_request", r->watched_cpu_s * 1e6 / per);
	yyjson_mut_obj_add_real(doc, o, "machine_busy_us_per_request",
				r->machine_busy_s * 1e6 / per);
	text = yyjson_mut_write(doc, 0, NULL);
	if (!text)
		return -ENOMEM;
	puts(text);
	return 0;
}

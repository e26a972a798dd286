// SPDX-License-Identifier: BSD-2-Clause
/* Records for programs: one JSON object per line, with everything. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/addr.h"
#include "common/cleanup.h"
#include "common/config.h"
#include "common/json.h"
#include "trace.h"

#define SECOND 1000000000ull

static void add_backend(yyjson_mut_doc *doc, yyjson_mut_val *obj, const char *key,
			const struct view *view, __u32 id)
{
	char name[KV_NAME_LEN];

	if (id == KV_TRACE_NOBODY)
		yyjson_mut_obj_add_null(doc, obj, key);
	else
		yyjson_mut_obj_add_strcpy(doc, obj, key, trace_backend(view, id, name));
}

static void add_hash(yyjson_mut_doc *doc, yyjson_mut_val *obj, const char *key, __u64 hash)
{
	if (hash)
		kv_json_add_hex(doc, obj, key, hash);
	else
		yyjson_mut_obj_add_null(doc, obj, key);
}

static void add_seconds(yyjson_mut_doc *doc, yyjson_mut_val *obj, const char *key, __u64 ns)
{
	if (ns)
		yyjson_mut_obj_add_real(doc, obj, key, ns / 1e9);
	else
		yyjson_mut_obj_add_null(doc, obj, key);
}

static void add_string(yyjson_mut_doc *doc, yyjson_mut_val *obj, const char *key, const char *text)
{
	if (text)
		yyjson_mut_obj_add_strcpy(doc, obj, key, text);
	else
		yyjson_mut_obj_add_null(doc, obj, key);
}

static void add_time(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct kv_trace *t)
{
	struct timespec now;
	char text[64];
	struct tm tm;
	time_t s;
	__u64 at;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now); /* only shown */
	at = now.tv_sec * SECOND + now.tv_nsec - kv_now_ns() + t->at_ns;
	s = at / SECOND;
	gmtime_r(&s, &tm);
	n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, sizeof(text) - n, ".%06uZ", (unsigned int)(at % SECOND / 1000));
	yyjson_mut_obj_add_strcpy(doc, obj, "time", text);
}

static void add_request(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct view *view,
			const struct kv_trace *t)
{
	const struct kv_service *service = view_service(view, t->service);
	const char *meaning, *reason = trace_reason(t, &meaning);
	struct kv_addr client = {.port = t->port};
	char text[KV_ADDR_TEXT], name[KV_NAME_LEN];

	memcpy(client.addr, t->client, sizeof(client.addr));
	yyjson_mut_obj_add_uint(doc, obj, "number", kv_trace_number(t->word));
	add_time(doc, obj, t);
	yyjson_mut_obj_add_str(doc, obj, "lane", trace_lane(t));
	add_string(doc, obj, "lane_reason", reason);
	add_string(doc, obj, "lane_reason_text", meaning);
	add_string(doc, obj, "service", service ? view_name(service->name, name) : NULL);
	yyjson_mut_obj_add_strcpy(doc, obj, "client", kv_addr_format(&client, text, sizeof(text)));
	add_hash(doc, obj, "tenant", t->tenant);
	add_hash(doc, obj, "model", t->model);
	add_hash(doc, obj, "session", t->session);
	yyjson_mut_obj_add_uint(doc, obj, "total_tokens", t->total);
	yyjson_mut_obj_add_uint(doc, obj, "rungs", t->rungs);
	yyjson_mut_obj_add_uint(doc, obj, "rungs_looked_up", t->looked);
}

static __u32 counted(const struct kv_trace_backend *b)
{
	return kv_discounted(b->matched, b->discount);
}

static void add_candidates(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct view *view,
			   const struct kv_trace *t)
{
	yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, obj, "backends");

	for (__u32 i = 0; i < t->listed && i < KV_TRACE_BACKENDS; i++) {
		const struct kv_trace_backend *b = &t->backends[i];
		yyjson_mut_val *one = yyjson_mut_arr_add_obj(doc, list);

		add_backend(doc, one, "backend", view, b->backend);
		yyjson_mut_obj_add_uint(doc, one, "matched_tokens", counted(b));
		yyjson_mut_obj_add_uint(doc, one, "believed_tokens", b->matched);
		yyjson_mut_obj_add_uint(doc, one, "waiting_tokens", b->wait);
		yyjson_mut_obj_add_uint(doc, one, "inflight_requests", b->requests);
		if (t->flags & KV_TRACE_BY_COST)
			yyjson_mut_obj_add_real(doc, one, "cost_s", b->cost / 1024e3);
	}
	yyjson_mut_obj_add_uint(doc, obj, "candidates", t->candidates);
}

static void add_holders(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct view *view,
			const struct kv_trace *t)
{
	yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, obj, "holders");
	char name[KV_NAME_LEN];

	for (__u32 i = 0; t->best && i < t->listed && i < KV_TRACE_BACKENDS; i++)
		if (counted(&t->backends[i]) == t->best)
			yyjson_mut_arr_add_strcpy(
				doc, list, trace_backend(view, t->backends[i].backend, name));
}

static void add_choice(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct view *view,
		       const struct kv_trace *t)
{
	add_string(doc, obj, "rule",
		   t->backend == KV_TRACE_NOBODY ? NULL : kv_policy_name(t->rule));
	yyjson_mut_obj_add_real(doc, obj, "price", t->price / 1024.0);
	yyjson_mut_obj_add_uint(doc, obj, "best_tokens", t->best);
	add_backend(doc, obj, "deepest", view, t->deepest);
	add_holders(doc, obj, view, t);
	add_backend(doc, obj, "choice", view, t->backend);
	yyjson_mut_obj_add_uint(doc, obj, "matched_tokens", t->matched);
	yyjson_mut_obj_add_uint(doc, obj, "own_tokens", t->own);
	yyjson_mut_obj_add_uint(doc, obj, "waiting_tokens", t->wait);
	add_backend(doc, obj, "second", view, t->second);
	add_backend(doc, obj, "intended", view, t->intended);
	yyjson_mut_obj_add_bool(doc, obj, "diverted", trace_diverted(t));
	yyjson_mut_obj_add_uint(doc, obj, "diverted_tokens", trace_diverted(t));
}

static void add_end(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct kv_trace *t)
{
	yyjson_mut_obj_add_uint(doc, obj, "retries", t->decisions ? t->decisions - 1 : 0);
	yyjson_mut_obj_add_bool(doc, obj, "lent_midflight", t->flags & KV_TRACE_LENT);
	if (t->status)
		yyjson_mut_obj_add_uint(doc, obj, "status", t->status);
	else
		yyjson_mut_obj_add_null(doc, obj, "status");
	add_seconds(doc, obj, "ttft_s", trace_ttft_ns(t));
	add_string(doc, obj, "end", trace_end_name(t));
	if (t->ended_ns)
		yyjson_mut_obj_add_uint(doc, obj, "bytes", t->bytes);
	else
		yyjson_mut_obj_add_null(doc, obj, "bytes");
	add_seconds(doc, obj, "duration_s", trace_took_ns(t));
}

int trace_json(const struct view *view, const struct kv_trace *t)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *obj = yyjson_mut_obj(doc);

	if (!doc || !obj)
		return -1;
	yyjson_mut_doc_set_root(doc, obj);
	add_request(doc, obj, view, t);
	add_candidates(doc, obj, view, t);
	add_choice(doc, obj, view, t);
	add_end(doc, obj, t);
	return kv_json_print(stdout, doc);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * A prompt's hash begins with its model's name, and events do not say it. Where the configuration
 * does not either, the engine is asked: the first of its /v1/models is what it was started with,
 * adapters come behind.
 */
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "agent/told_private.h"
#include "common/cleanup.h"
#include "common/log.h"

#define MODEL_ANSWER_MAX (1u << 20)
#define MODEL_TIMEOUT_MS 5000

static bool on_data(void *arg, const char *data, size_t n)
{
	struct told_backend *b = arg;

	return fetch_text_add(&b->answer, data, n);
}

static void on_done(void *arg, enum fetch_result result, int status)
{
	struct told_backend *b = arg;
	_cleanup_json_ yyjson_doc *doc =
		status == 200 && b->answer.p ? yyjson_read(b->answer.p, b->answer.len, 0) : NULL;
	yyjson_val *list = yyjson_obj_get(yyjson_doc_get_root(doc), "data");
	const char *name = yyjson_get_str(yyjson_obj_get(yyjson_arr_get_first(list), "id"));

	b->fetch = NULL;
	fetch_text_free(&b->answer);
	if (name && *name && strlen(name) < sizeof(b->model)) {
		strcpy(b->model, name);
		b->retry_ns = 0;
		kv_info("backend %s: its events are of model %s", b->name, name);
	} else if (result == FETCH_ANSWERED) {
		kv_warn("backend %s: /v1/models names no model (status %d): its events are not "
			"followed: set the service's events.model",
			b->name, status);
	}
}

const char *told_model(struct told *t, __u32 id)
{
	struct told_backend *b = &t->backends[id];
	const struct fetch_request request = {
		.path = "/v1/models",
		.timeout_ms = MODEL_TIMEOUT_MS,
		.limit = MODEL_ANSWER_MAX,
		.data = on_data,
		.done = on_done,
		.arg = b,
	};

	if (*b->way.events.model)
		return b->way.events.model;
	if (*b->model)
		return b->model;
	if (!b->fetch)
		b->fetch = fetch_start(t->agent->base, &b->way.address, &request);
	return NULL;
}

void told_model_forget(struct told_backend *b)
{
	fetch_cancel(b->fetch);
	b->fetch = NULL;
	fetch_text_free(&b->answer);
	*b->model = 0;
}

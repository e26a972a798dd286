// SPDX-License-Identifier: BSD-2-Clause
#include "backend.h"

#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "common/addr.h"
#include "common/affinity.h"
#include "common/cleanup.h"
#include "common/config.h"
#include "common/config_discover.h"
#include "common/rate.h"
#include "control.h"
#include "discover.h"
#include "steering.h"
#include "table.h"

static __u64 positive(__u64 count)
{
	return count >> 63 ? 0 : count;
}

static double ratio(__u64 part, __u64 whole)
{
	return whole ? (double)part / whole : 0;
}

static __u32 affinity_of(const struct view *view, const struct kv_backend *backend)
{
	const struct kv_service *service = view_service(view, backend->service);

	return service ? service->affinity : KV_AFFINITY_AUTO;
}

yyjson_mut_val *backend_json(yyjson_mut_doc *doc, const struct view *view, __u32 id)
{
	const struct kv_backend *backend = view_backend(view, id);
	const struct kv_service *service = view_service(view, backend->service);
	const struct view_pool *pool = &view->pool[id];
	yyjson_mut_val *obj = yyjson_mut_obj(doc), *ups;
	char text[KV_ADDR_TEXT], name[KV_NAME_LEN], dev[IF_NAMESIZE];
	struct view_totals totals;

	view_total(view, backend->service, &totals);
	yyjson_mut_obj_add_strcpy(doc, obj, "name", view_name(backend->name, name));
	yyjson_mut_obj_add_strcpy(doc, obj, "service",
				  service ? view_name(service->name, name) : "");
	yyjson_mut_obj_add_strcpy(doc, obj, "address", view_address(backend, text, sizeof(text)));
	yyjson_mut_obj_add_str(doc, obj, "state", view_backend_state(backend->state));
	yyjson_mut_obj_add_str(doc, obj, "health", view_health(backend->health));
	yyjson_mut_obj_add_strcpy(doc, obj, "interface",
				  if_indextoname(backend->ifindex, dev) ?: "");
	yyjson_mut_obj_add_bool(doc, obj, "local", backend->path & KV_PATH_LOCAL);
	yyjson_mut_obj_add_uint(doc, obj, "epoch", backend->epoch);
	yyjson_mut_obj_add_uint(doc, obj, "clock_tokens", backend->clock);
	yyjson_mut_obj_add_uint(doc, obj, "capacity_tokens", backend->capacity);
	yyjson_mut_obj_add_uint(doc, obj, "rate_tokens_per_s", backend->rate);
	yyjson_mut_obj_add_str(doc, obj, "rate_from", rate_from(backend));
	yyjson_mut_obj_add_uint(doc, obj, "inflight_tokens", positive(backend->inflight_tokens));
	yyjson_mut_obj_add_uint(doc, obj, "inflight_requests",
				positive(backend->inflight_requests));
	yyjson_mut_obj_add_real(doc, obj, "wait_s", view_wait(view, backend));
	yyjson_mut_obj_add_uint(doc, obj, "requests", backend->requests);
	yyjson_mut_obj_add_real(doc, obj, "request_share",
				ratio(backend->requests, totals.requests));
	yyjson_mut_obj_add_uint(doc, obj, "prompt_tokens", backend->prompt_tokens);
	yyjson_mut_obj_add_uint(doc, obj, "matched_tokens", backend->matched_tokens);
	yyjson_mut_obj_add_real(doc, obj, "hit_rate",
				ratio(backend->matched_tokens, backend->prompt_tokens));
	yyjson_mut_obj_add_uint(doc, obj, "predicted_tokens", backend->predicted_tokens);
	affinity_add_json(doc, obj, affinity_of(view, backend), backend);
	yyjson_mut_obj_add_uint(doc, obj, "failures", backend->failures);
	yyjson_mut_obj_add_str(doc, obj, "told", view_told(backend->told));
	yyjson_mut_obj_add_uint(doc, obj, "told_blocks", backend->told_held);
	yyjson_mut_obj_add_uint(doc, obj, "told_block_tokens", backend->told_block);
	yyjson_mut_obj_add_str(doc, obj, "from", kv_origin_name(backend->origin));
	ups = yyjson_mut_obj_add_obj(doc, obj, "upstreams");
	yyjson_mut_obj_add_uint(doc, ups, "idle", pool->idle);
	yyjson_mut_obj_add_uint(doc, ups, "relay", pool->relay);
	yyjson_mut_obj_add_uint(doc, ups, "lent", pool->lent);
	yyjson_mut_obj_add_uint(doc, ups, "done", pool->done);
	return obj;
}

void backend_table(const struct view *view, __u32 service, FILE *f, const char *indent)
{
	struct table t = {.columns = "BACKEND ADDRESS STATE >WAIT LOAD >RUNNING >REQUESTS SHARE "
				     ">HITS AFFINITY >RATE >IDLE >LENT >FAILED TOLD FROM"};
	char name[KV_NAME_LEN], worth[AFFINITY_TEXT], text[TABLE_TEXT], number[TABLE_TEXT];
	struct view_totals totals;
	double longest = 0;

	for (__u32 i = 0; i < KV_MAX_BACKENDS; i++) {
		const struct kv_backend *b = view_backend(view, i);

		if (b && (service == KV_NONE || b->service == service) &&
		    view_wait(view, b) > longest)
			longest = view_wait(view, b);
	}
	for (__u32 i = 0; i < KV_MAX_BACKENDS; i++) {
		const struct kv_backend *b = view_backend(view, i);

		if (!b || (service != KV_NONE && b->service != service))
			continue;
		view_total(view, b->service, &totals);
		table_add(&t, "%s", view_name(b->name, name));
		table_add(&t, "%s", view_address(b, text, sizeof(text)));
		table_add(&t, "%s", view_backend_standing(b));
		table_add(&t, "%.2fs", view_wait(view, b));
		table_add(&t, "%s", bar(view_wait(view, b), longest, text));
		table_add(&t, "%llu", (unsigned long long)positive(b->inflight_requests));
		table_add(&t, "%s", short_number(b->requests, number));
		table_add(&t, "%s", bar(b->requests, totals.requests, text));
		table_add(&t, "%s", percent(b->matched_tokens, b->prompt_tokens, number));
		table_add(&t, "%s", affinity_short(affinity_of(view, b), b, worth));
		table_add(&t, "%s", short_number(b->rate, number));
		table_add(&t, "%u", view->pool[i].idle);
		table_add(&t, "%u", view->pool[i].lent);
		table_add(&t, "%s", short_number(b->failures, number));
		table_add(&t, "%s", b->told ? view_told(b->told) : "-");
		table_add(&t, "%s", kv_origin_name(b->origin));
	}
	table_print(&t, f, indent);
}

static int backend_list(struct cli *cli, int argc, char **argv)
{
	_cleanup_pins_ struct kv_pins *pins = NULL;
	_cleanup_free_ struct view *view = malloc(sizeof(*view));
	int rc = cli_arguments(cli, &argc, argv, NULL, 0, 0) ?: cli_pins(cli, &pins)
		?: view_take(cli, pins, false, view);

	if (rc)
		return rc;
	cli_say_if_down(cli, pins);
	if (cli->json) {
		_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
		yyjson_mut_val *root = yyjson_mut_obj(doc);
		yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "backends");

		for (__u32 i = 0; i < KV_MAX_BACKENDS; i++)
			if (view_backend(view, i))
				yyjson_mut_arr_append(list, backend_json(doc, view, i));
		list = yyjson_mut_obj_add_arr(doc, root, "discover");
		for (__u32 i = 0; i < KV_MAX_SERVICES; i++)
			discover_add_json(doc, list, view, i);
		return cli_print(cli, doc, root);
	}
	backend_table(view, KV_NONE, stdout, "");
	discover_lines(view, KV_NONE, stdout, "\n");
	return CLI_OK;
}

/* A number for the agent, checked here so that the message names the option. */
static int add_number(struct cli *cli, yyjson_mut_doc *doc, yyjson_mut_val *request,
		      const char *key, const char *text, int (*parse)(const char *, __u64 *),
		      const char *expected)
{
	__u64 number;

	if (!text)
		return 0;
	if (parse(text, &number) || !number)
		return cli_usage(cli, "--%s: found \"%s\": expected %s", key, text, expected);
	yyjson_mut_obj_add_uint(doc, request, key, number);
	return 0;
}

static int backend_add(struct cli *cli, int argc, char **argv)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *request = control_request(doc, "backend-add");
	const char *name = NULL, *capacity = NULL, *rate = NULL;
	const struct cli_option options[] = {
		{"--name", &name, NULL},
		{"--capacity", &capacity, NULL},
		{"--rate", &rate, NULL},
		{0},
	};
	struct kv_addr address;
	char done[256];
	int rc = cli_arguments(cli, &argc, argv, options, 2, 2);

	if (rc)
		return rc;
	if (kv_addr_parse(argv[1], &address))
		return cli_usage(cli, "\"%s\": expected " KV_ADDR_EXPECTED, argv[1]);
	yyjson_mut_obj_add_str(doc, request, "service", argv[0]);
	yyjson_mut_obj_add_str(doc, request, "address", argv[1]);
	if (name)
		yyjson_mut_obj_add_str(doc, request, "name", name);
	rc = add_number(cli, doc, request, "capacity", capacity, kv_parse_capacity,
			"tokens, or BLOCKSxSIZE as 8192x16")
		     ?: add_number(cli, doc, request, "rate", rate, kv_parse_count,
				   "tokens per second");
	if (rc)
		return rc;
	snprintf(done, sizeof(done), "backend %.64s: added to service %.64s", name ?: argv[1],
		 argv[0]);
	return control_do(cli, doc, done);
}

static int named(struct cli *cli, int argc, char **argv, const char *verb, const char *what)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *request = control_request(doc, verb);
	char done[256];
	int rc = cli_arguments(cli, &argc, argv, NULL, 1, 1);

	if (rc)
		return rc;
	yyjson_mut_obj_add_str(doc, request, "name", argv[0]);
	snprintf(done, sizeof(done), "backend %.64s: %s", argv[0], what);
	return control_do(cli, doc, done);
}

static int backend_drain(struct cli *cli, int argc, char **argv)
{
	return named(cli, argc, argv, "backend-drain", "draining: gets no new requests");
}

static int backend_undrain(struct cli *cli, int argc, char **argv)
{
	return named(cli, argc, argv, "backend-undrain", "takes requests again");
}

static int backend_remove(struct cli *cli, int argc, char **argv)
{
	return named(cli, argc, argv, "backend-remove", "leaves once its running requests end");
}

const struct cli_verb backend_verbs[] = {
	{"list", "", "all of them, with load, share and hits", backend_list},
	{"show", "NAME", "one in words: health, engine, models, predictions", backend_show},
	{"add", "SERVICE ADDRESS:PORT [--name N] [--capacity TOKENS] [--rate TOKENS/S]",
	 "until the agent is started again, or another file applied", backend_add},
	{"drain", "NAME", "finish what it has, no new requests", backend_drain},
	{"undrain", "NAME", "the opposite of drain", backend_undrain},
	{"remove", "NAME", "drain, then forget", backend_remove},
	{0},
};

// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>

#include "backend.h"
#include "common/cleanup.h"
#include "common/config.h"
#include "discover.h"
#include "steering.h"
#include "table.h"

yyjson_mut_val *service_json(yyjson_mut_doc *doc, const struct view *view, __u32 id)
{
	const struct kv_service *service = view_service(view, id);
	yyjson_mut_val *obj = yyjson_mut_obj(doc), *list;
	char text[KV_ADDR_TEXT], name[KV_NAME_LEN];
	struct view_totals totals;

	view_total(view, id, &totals);
	yyjson_mut_obj_add_strcpy(doc, obj, "name", view_name(service->name, name));
	yyjson_mut_obj_add_str(doc, obj, "state", view_service_state(service));
	yyjson_mut_obj_add_str(doc, obj, "policy", kv_policy_name(service->policy));
	list = yyjson_mut_obj_add_arr(doc, obj, "listen");
	for (__u32 i = 0; i < view_listens(service); i++)
		yyjson_mut_arr_add_strcpy(doc, list, view_listen(service, i, text, sizeof(text)));
	yyjson_mut_obj_add_uint(doc, obj, "floor_tokens", service->floor);
	yyjson_mut_obj_add_str(doc, obj, "affinity", kv_affinity_name(service->affinity));
	yyjson_mut_obj_add_uint(doc, obj, "body_limit_bytes", service->body_limit);
	yyjson_mut_obj_add_bool(doc, obj, "answer_header", service->flags & KV_SERVICE_HEADER);
	yyjson_mut_obj_add_uint(doc, obj, "used_tokens", steering_used(service, view->now_ns));
	yyjson_mut_obj_add_uint(doc, obj, "requests", totals.requests);
	discover_add_json(doc, yyjson_mut_obj_add_arr(doc, obj, "discover"), view, id);
	list = yyjson_mut_obj_add_arr(doc, obj, "backends");
	for (__u32 i = 0; i < KV_MAX_BACKENDS; i++) {
		const struct kv_backend *backend = view_backend(view, i);

		if (backend && backend->service == id)
			yyjson_mut_arr_append(list, backend_json(doc, view, i));
	}
	return obj;
}

static void listens(const struct kv_service *service, char *buf, size_t size)
{
	char text[KV_ADDR_TEXT];
	size_t n = 0;

	buf[0] = 0;
	for (__u32 i = 0; i < view_listens(service) && n < size; i++)
		n += snprintf(buf + n, size - n, "%s%s", n ? "," : "",
			      view_listen(service, i, text, sizeof(text)));
}

void service_table(const struct view *view, FILE *f, const char *indent)
{
	struct table t = {.columns = "SERVICE STATE POLICY LISTEN >BACKENDS >REQUESTS"};
	char name[KV_NAME_LEN], text[512], number[TABLE_TEXT];
	struct view_totals totals;

	for (__u32 i = 0; i < KV_MAX_SERVICES; i++) {
		const struct kv_service *service = view_service(view, i);

		if (!service)
			continue;
		view_total(view, i, &totals);
		listens(service, text, sizeof(text));
		table_add(&t, "%s", view_name(service->name, name));
		table_add(&t, "%s", view_service_state(service));
		table_add(&t, "%s", kv_policy_name(service->policy));
		table_add(&t, "%s", text);
		table_add(&t, "%u/%u up", totals.backends_up, totals.backends);
		table_add(&t, "%s", short_number(totals.requests, number));
	}
	table_print(&t, f, indent);
}

static int service_list(struct cli *cli, int argc, char **argv)
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
		yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "services");

		for (__u32 i = 0; i < KV_MAX_SERVICES; i++)
			if (view_service(view, i))
				yyjson_mut_arr_append(list, service_json(doc, view, i));
		return cli_print(cli, doc, root);
	}
	service_table(view, stdout, "");
	return CLI_OK;
}

static void show(const struct view *view, __u32 id)
{
	const struct kv_service *service = view_service(view, id);
	char name[KV_NAME_LEN], text[512], number[KV_VALUE_TEXT];
	struct view_totals totals;
	double fleet = 0;

	view_total(view, id, &totals);
	listens(service, text, sizeof(text));
	for (__u32 i = 0; i < KV_MAX_BACKENDS; i++) {
		const struct kv_backend *backend = view_backend(view, i);

		if (backend && backend->service == id && backend->state == KV_BACKEND_UP)
			fleet += backend->rate;
	}
	printf("service %s: %s\n", view_name(service->name, name), view_service_state(service));
	printf("  listens on   %s\n", text);
	printf("  policy       %s, matches from %u tokens on count\n",
	       kv_policy_name(service->policy), service->floor);
	printf("  affinity     %s\n",
	       service->affinity == KV_AFFINITY_AUTO   ? "auto: what a backend is believed to "
							 "hold counts by the share found of it"
	       : service->affinity == KV_AFFINITY_FULL ? "held full, whatever is measured"
						       : "off");
	printf("  body limit   %s\n", kv_format_bytes(service->body_limit, number));
	printf("  KV-Steer     %s\n",
	       service->flags & KV_SERVICE_HEADER ? "in answers of the agent lane" : "off");
	printf("  utilisation  %s of %s prefill tokens/s\n",
	       percent(steering_used(service, view->now_ns) / 30.0, fleet, text),
	       short_number(fleet, name));
	printf("  backends     %u of %u up\n\n", totals.backends_up, totals.backends);
	backend_table(view, id, stdout, "  ");
	discover_lines(view, id, stdout, "\n");
}

static int service_show(struct cli *cli, int argc, char **argv)
{
	_cleanup_pins_ struct kv_pins *pins = NULL;
	_cleanup_free_ struct view *view = malloc(sizeof(*view));
	int rc = cli_arguments(cli, &argc, argv, NULL, 1, 1) ?: cli_pins(cli, &pins)
		?: view_take(cli, pins, false, view);
	__u32 id;

	if (rc)
		return rc;
	id = view_service_id(view, argv[0]);
	if (id == KV_NONE)
		return cli_error(cli, "service \"%s\": there is none: see kvsteer service list",
				 argv[0]);
	cli_say_if_down(cli, pins);
	if (cli->json) {
		_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);

		return cli_print(cli, doc, service_json(doc, view, id));
	}
	show(view, id);
	return CLI_OK;
}

const struct cli_verb service_verbs[] = {
	{"list", "", "all of them", service_list},
	{"show", "NAME", "one, with its backends", service_show},
	{0},
};

// SPDX-License-Identifier: BSD-2-Clause
/* One backend in words: only the agent knows what its engine says of itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "common/cleanup.h"
#include "control.h"
#include "table.h"

static const char *text_of(yyjson_val *v, const char *key)
{
	return yyjson_get_str(yyjson_obj_get(v, key)) ?: "";
}

static double number_of(yyjson_val *v, const char *key)
{
	return yyjson_get_num(yyjson_obj_get(v, key));
}

static bool is(yyjson_val *v, const char *key)
{
	return yyjson_get_bool(yyjson_obj_get(v, key));
}

static void show_health(yyjson_val *root)
{
	yyjson_val *health = yyjson_obj_get(root, "health");
	char time[TABLE_TEXT];

	printf("  health      %s for %s: %s", text_of(health, "state"),
	       short_time(number_of(health, "since_s"), time), text_of(health, "why"));
	if (is(health, "draining"))
		printf("; draining");
	else if (!is(root, "connects"))
		printf("; no connection can be opened");
	printf("\n");
	if (is(root, "takes_requests") && number_of(health, "weight") < 1)
		printf("              it starts slowly: gets %.0f %% of the requests that are new "
		       "to it\n",
		       100 * number_of(health, "weight"));
	if (number_of(health, "restarts") > 0)
		printf("              was started again %.0f times since it is followed\n",
		       number_of(health, "restarts"));
}

static void show_engine(yyjson_val *root)
{
	yyjson_val *engine = yyjson_obj_get(root, "engine");
	const char *trouble = text_of(engine, "trouble");

	printf("  engine      ");
	if (!is(engine, "asked"))
		printf("its metrics are not read (follow.metrics)\n");
	else if (!yyjson_obj_get(engine, "kind"))
		printf("has not told its load: %s\n",
		       *trouble ? trouble : "no figures at /metrics");
	else if (is(engine, "stale"))
		printf("%s; its figures are %.0f s old and not used: %s\n", text_of(engine, "kind"),
		       number_of(engine, "age_s"), *trouble ? trouble : "no figures at /metrics");
	else
		printf("%s: runs %.0f, %.0f wait, about %.0f of them not by kvsteer; cache %.0f %% "
		       "in use\n",
		       text_of(engine, "kind"), number_of(engine, "running"),
		       number_of(engine, "waiting"), number_of(root, "foreign_requests"),
		       100 * number_of(engine, "cache_use"));
	printf("  capacity    %.0f tokens, by %s\n", number_of(root, "capacity_tokens"),
	       strcmp(text_of(root, "capacity_from"), "engine") ? text_of(root, "capacity_from")
								: "the engine's own word");
}

static void show_rate(yyjson_val *root)
{
	printf("  rate        computes %.0f tokens/s of prompts, %s\n",
	       number_of(root, "rate_tokens_per_s"),
	       strcmp(text_of(root, "rate_from"), "learned") ? text_of(root, "rate_from")
							     : "by what streams have taken");
}

static void show_models(yyjson_val *root)
{
	yyjson_val *models = yyjson_obj_get(root, "models"), *model;
	size_t i, max;

	printf("  models     ");
	yyjson_arr_foreach (models, i, max, model)
		printf(" %s", yyjson_get_str(model));
	printf("%s\n", yyjson_arr_size(models) ? "" : " not told: gets requests for any");
}

static void show_origin(yyjson_val *root)
{
	const char *from = text_of(root, "from");

	if (!strcmp(from, "dns"))
		printf("  named by    the DNS name %s\n", text_of(root, "dns"));
	else
		printf("  named by    %s\n",
		       strcmp(from, "hand") ? "the configuration" : "hand (kvsteer backend add)");
}

static void show(yyjson_val *root)
{
	yyjson_val *prediction = yyjson_obj_get(root, "prediction");

	printf("backend %s of service %s, %s: %s\n", text_of(root, "name"),
	       text_of(root, "service"), text_of(root, "address"),
	       is(root, "takes_requests") ? "takes requests" : "gets no requests");
	show_origin(root);
	show_health(root);
	show_engine(root);
	show_rate(root);
	show_models(root);
	printf("  prediction  %s%s\n", is(prediction, "alarm") ? "ALARM: " : "",
	       text_of(prediction, "text"));
	printf("  affinity    %s\n", text_of(yyjson_obj_get(root, "affinity"), "text"));
}

int backend_show(struct cli *cli, int argc, char **argv)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	_cleanup_json_mut_ yyjson_mut_doc *copy = NULL;
	_cleanup_json_ yyjson_doc *answer = NULL;
	yyjson_mut_val *request = control_request(doc, "backend-show");
	int rc = cli_arguments(cli, &argc, argv, NULL, 1, 1);

	if (rc)
		return rc;
	yyjson_mut_obj_add_str(doc, request, "name", argv[0]);
	rc = control_call(cli, doc, &answer);
	if (rc)
		return rc;
	if (!cli->json) {
		show(yyjson_doc_get_root(answer));
		return CLI_OK;
	}
	copy = yyjson_doc_mut_copy(answer, NULL);
	return cli_print(cli, copy, yyjson_mut_doc_get_root(copy));
}

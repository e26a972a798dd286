// SPDX-License-Identifier: BSD-2-Clause
#include "discover.h"

#include <string.h>

#include "common/config_discover.h"
#include "table.h"

static const struct kv_service *discovering(const struct view *view, __u32 id)
{
	const struct kv_service *service = view_service(view, id);

	return service && kv_discovers(&service->discover) ? service : NULL;
}

static const char *state(const struct kv_service_found *found)
{
	return found->failing ? "failing" : found->answered_at ? "good" : "waiting";
}

static double age(const struct view *view, const struct kv_service_found *found)
{
	return view->now_ns > found->answered_at ? (view->now_ns - found->answered_at) / 1e9 : 0;
}

static void line(const struct view *view, const struct kv_service *service, FILE *f)
{
	const struct kv_service_found *found = &service->found;
	char name[KV_NAME_LEN], how[KV_DNS_NAME_LEN + 16], time[TABLE_TEXT];

	fprintf(f, "discover  %s: %s: %u engine%s", view_name(service->name, name),
		kv_discover_format(&service->discover, how, sizeof(how)), found->engines,
		found->engines == 1 ? "" : "s");
	if (found->passed_over)
		fprintf(f, ", %u of them passed over (the agent's log says why)",
			found->passed_over);
	if (found->failing)
		fprintf(f, " kept: FAILS: %.*s", KV_DNS_WHY_LEN - 1, found->why);
	if (found->answered_at)
		fprintf(f, "; last answered %s ago\n", short_time(age(view, found), time));
	else
		fprintf(f, "; not answered yet\n");
}

void discover_lines(const struct view *view, __u32 service, FILE *f, const char *begin)
{
	for (__u32 i = 0; i < KV_MAX_SERVICES; i++) {
		const struct kv_service *s = discovering(view, i);

		if (!s || (service != KV_NONE && service != i))
			continue;
		fputs(begin, f);
		begin = "";
		line(view, s, f);
	}
}

void discover_add_json(yyjson_mut_doc *doc, yyjson_mut_val *list, const struct view *view,
		       __u32 service)
{
	const struct kv_service *s = discovering(view, service);
	yyjson_mut_val *obj;
	char name[KV_NAME_LEN];

	if (!s)
		return;
	obj = yyjson_mut_arr_add_obj(doc, list);
	yyjson_mut_obj_add_strcpy(doc, obj, "service", view_name(s->name, name));
	yyjson_mut_obj_add_strncpy(doc, obj, "dns", s->discover.name,
				   strnlen(s->discover.name, KV_DNS_NAME_LEN));
	if (s->discover.port)
		yyjson_mut_obj_add_uint(doc, obj, "port", s->discover.port);
	yyjson_mut_obj_add_bool(doc, obj, "srv", !s->discover.port);
	yyjson_mut_obj_add_str(doc, obj, "state", state(&s->found));
	yyjson_mut_obj_add_strncpy(doc, obj, "why", s->found.failing ? s->found.why : "",
				   s->found.failing ? strnlen(s->found.why, KV_DNS_WHY_LEN) : 0);
	yyjson_mut_obj_add_uint(doc, obj, "engines", s->found.engines);
	yyjson_mut_obj_add_uint(doc, obj, "passed_over", s->found.passed_over);
	yyjson_mut_obj_add_uint(doc, obj, "rounds", s->found.rounds);
	yyjson_mut_obj_add_uint(doc, obj, "failures", s->found.failures);
	if (s->found.answered_at)
		yyjson_mut_obj_add_real(doc, obj, "answered_age_s", age(view, &s->found));
}

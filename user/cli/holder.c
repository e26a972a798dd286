// SPDX-License-Identifier: BSD-2-Clause
#include "holder.h"

#include "steering.h"
#include "table.h"

const char *holder_state(const struct view *view, __u64 holder)
{
	const struct kv_backend *backend = view_backend(view, kv_holder_backend(holder));

	if (!backend)
		return "gone";
	if (steering_live(holder, backend))
		return "live";
	if (kv_holder_epoch(holder) != (backend->epoch & 0xfff))
		return "lost";
	return backend->state == KV_BACKEND_UP ? "evicted" : view_backend_state(backend->state);
}

const char *holder_kind(const struct view *view, __u64 holder)
{
	static const char *const told[KV_TIER_COUNT] = {"told", "told, CPU", "told, disk",
							"told, external"};
	const struct kv_backend *backend = view_backend(view, kv_holder_backend(holder));

	if (backend && steering_told(holder, backend))
		return told[kv_holder_tier(holder)];
	return holder & KV_HOLDER_TENTATIVE ? "learned, tentative" : "learned";
}

yyjson_mut_val *holder_json(yyjson_mut_doc *doc, const struct view *view, __u64 holder)
{
	const struct kv_backend *backend = view_backend(view, kv_holder_backend(holder));
	yyjson_mut_val *obj = yyjson_mut_obj(doc);
	char name[KV_NAME_LEN];

	yyjson_mut_obj_add_strcpy(doc, obj, "backend",
				  backend ? view_name(backend->name, name) : "");
	yyjson_mut_obj_add_str(doc, obj, "state", holder_state(view, holder));
	yyjson_mut_obj_add_uint(doc, obj, "epoch", kv_holder_epoch(holder));
	yyjson_mut_obj_add_uint(doc, obj, "clock_tokens", kv_holder_clock(holder));
	yyjson_mut_obj_add_uint(doc, obj, "age_tokens",
				backend ? steering_age(holder, backend) : 0);
	yyjson_mut_obj_add_bool(doc, obj, "tentative", holder & KV_HOLDER_TENTATIVE);
	yyjson_mut_obj_add_bool(doc, obj, "told", backend && steering_told(holder, backend));
	yyjson_mut_obj_add_str(doc, obj, "kind", holder_kind(view, holder));
	return obj;
}

void holder_table(const struct view *view, const __u64 *holders, size_t n)
{
	struct table t = {.columns = "BACKEND STATE >AGE OF-CAPACITY >PART KIND"};
	char name[KV_NAME_LEN], text[TABLE_TEXT];

	for (size_t i = 0; i < n; i++) {
		__u64 h = holders[i];
		const struct kv_backend *b = view_backend(view, kv_holder_backend(h));
		__u64 age = b ? steering_age(h, b) : 0;

		if (!h)
			continue;
		table_add(&t, "%s", b ? view_name(b->name, name) : "-");
		table_add(&t, "%s", holder_state(view, h));
		table_add(&t, "%s", short_number(age, text));
		table_add(&t, "%s", bar(age, b ? b->capacity : 0, text));
		table_add(&t, "%s", percent(age, b ? b->capacity : 0, text));
		table_add(&t, "%s", holder_kind(view, h));
	}
	if (t.n)
		table_print(&t, stdout, "  ");
}

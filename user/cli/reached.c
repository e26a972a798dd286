// SPDX-License-Identifier: BSD-2-Clause
#include "reached.h"

#include "table.h"

/* Whether a limit is reached at this moment; of some only the agent knows. */
enum now {
	NOW_NO,
	NOW_YES,
	NOW_UNKNOWN,
};

static enum now clients_now(const struct view *view)
{
	const struct view_fill *fill = &view->fill[VIEW_CLIENTS];

	return fill->used >= fill->max ? NOW_YES : NOW_NO;
}

static enum now prefixes_now(const struct view *view)
{
	return view->fill[VIEW_PREFIXES].crowded ? NOW_YES : NOW_NO;
}

static enum now sessions_now(const struct view *view)
{
	return view->fill[VIEW_SESSIONS].crowded ? NOW_YES : NOW_NO;
}

static enum now pools_now(const struct view *view)
{
	for (__u32 i = 0; i < KV_MAX_BACKENDS; i++) {
		const struct view_pool *pool = &view->pool[i];

		if (view_backend(view, i) && !pool->idle &&
		    pool->relay + pool->lent >= view->meta.upstreams_per_backend)
			return NOW_YES;
	}
	return NOW_NO;
}

static __u64 evicted_sessions(const struct view *view)
{
	return view->fill[VIEW_SESSIONS].evicted;
}

/* What counts is a counter, or something that is computed. */
static const struct limit {
	const char *name;
	enum kv_counter counter;
	__u64 (*times)(const struct view *view);
	enum now (*now)(const struct view *view);
	const char *text;
} limits[] = {
	{"max_clients", KV_CNT_agent_clients_full, NULL, clients_now,
	 "the table of client connections is full: requests of further ones are answered 503"},
	{"limits.clients", KV_CNT_clients_refused, NULL, NULL,
	 "further client connections are reset"},
	{"limits.clients_per_address", KV_CNT_clients_refused_address, NULL, NULL,
	 "further connections of that client address are reset"},
	{"limits.memory", KV_CNT_agent_memory_waits, NULL, NULL,
	 "requests over 16 KiB without a hint wait to be read, then 503"},
	{"limits.memory_per_address", KV_CNT_agent_memory_waits_address, NULL, NULL,
	 "requests over 16 KiB without a hint of that client address wait to be read, then 503"},
	{"upstreams_per_backend", KV_CNT_upstreams_all_busy, NULL, pools_now,
	 "all connections to a backend are in use: requests wait for one, then 503"},
	{"open files, clients", KV_CNT_clients_out_of_files, NULL, NULL,
	 "further client connections are reset, for the rest is kept for upstreams: raise "
	 "LimitNOFILE="},
	{"open files, accepting", KV_CNT_accepts_put_off, NULL, NULL,
	 "new client connections wait a second in the kernel: raise LimitNOFILE= or fs.file-max"},
	{"open files, upstreams", KV_CNT_upstreams_out_of_files, NULL, NULL,
	 "no further connections to backends: requests wait for one, then 503: raise LimitNOFILE="},
	{"local ports", KV_CNT_upstreams_out_of_ports, NULL, NULL,
	 "no further connections to backends: requests wait for one, then 503: widen "
	 "net.ipv4.ip_local_port_range"},
	{"memory", KV_CNT_upstreams_out_of_memory, NULL, NULL,
	 "no further connections to backends: requests wait for one, then 503"},
	{"max_prefixes", KV_CNT_prefix_evicted, NULL, prefixes_now,
	 "entries made room for newer ones: what they knew of caches is forgotten"},
	{"max_sessions", 0, evicted_sessions, sessions_now,
	 "entries made room for newer ones: their sessions are steered anew"},
	{"max_sessions, at once", KV_CNT_session_full, NULL, NULL, "entries were not stored"},
	{"events", KV_CNT_agent_events_lost, NULL, NULL,
	 "what the kernel told was lost: the agent looks at every connection instead"},
};

#define N_LIMITS (sizeof(limits) / sizeof(*limits))

/* False: it has never been reached. */
static bool reached(const struct view *view, const struct limit *limit, __u64 *ret_times,
		    enum now *ret_now)
{
	*ret_times = limit->times ? limit->times(view) : view->counters[limit->counter];
	*ret_now = limit->now ? limit->now(view) : NOW_UNKNOWN;
	return *ret_times || *ret_now == NOW_YES;
}

void reached_lines(const struct view *view, FILE *f)
{
	static const char *const words[] = {"no", "yes", "-"};
	struct table t = {.columns = "LIMIT-REACHED >TIMES NOW WHAT-COMES-OF-IT"};
	enum now now;
	__u64 times;

	for (size_t i = 0; i < N_LIMITS; i++) {
		if (!reached(view, &limits[i], &times, &now))
			continue;
		table_add(&t, "%s", limits[i].name);
		table_add(&t, "%llu", (unsigned long long)times);
		table_add(&t, "%s", words[now]);
		table_add(&t, "%s", limits[i].text);
	}
	if (t.n)
		table_print(&t, f, "");
	else
		fputs("limits     none was reached\n", f);
}

yyjson_mut_val *reached_json(yyjson_mut_doc *doc, const struct view *view)
{
	yyjson_mut_val *list = yyjson_mut_arr(doc);
	enum now now;
	__u64 times;

	for (size_t i = 0; i < N_LIMITS; i++) {
		yyjson_mut_val *obj;

		if (!reached(view, &limits[i], &times, &now))
			continue;
		obj = yyjson_mut_arr_add_obj(doc, list);
		yyjson_mut_obj_add_str(doc, obj, "limit", limits[i].name);
		yyjson_mut_obj_add_uint(doc, obj, "times", times);
		if (now == NOW_UNKNOWN)
			yyjson_mut_obj_add_null(doc, obj, "now");
		else
			yyjson_mut_obj_add_bool(doc, obj, "now", now == NOW_YES);
		yyjson_mut_obj_add_str(doc, obj, "text", limits[i].text);
	}
	return list;
}

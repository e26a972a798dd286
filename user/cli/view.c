// SPDX-License-Identifier: BSD-2-Clause
#include "view.h"

#include <errno.h>
#include <string.h>

#include "common/addr.h"
#include "steering.h"

static int count_entry(const void *key, const void *value, void *context)
{
	(void)key;
	(void)value;
	++*(__u64 *)context;
	return 0;
}

/* Of one set; crowded: more of them are full than not, so far. */
struct prefix_count {
	__u64 used;
	__s64 full;
};

static int count_prefixes(const void *key, const void *value, void *context)
{
	const struct kv_prefix_set *set = value;
	struct prefix_count *count = context;
	__u32 used = 0;

	(void)key;
	for (__u32 way = 0; way < KV_WAYS; way++)
		used += set->hash[way] != 0;
	count->used += used;
	count->full += used == KV_WAYS ? 1 : -1;
	return 0;
}

static int count_client(const void *key, const void *value, void *context)
{
	const struct kv_client *client = value;
	struct view *view = context;

	(void)key;
	switch (client->state) {
	case KV_CLIENT_HOME:
		view->clients.home++;
		break;
	case KV_CLIENT_AGENT:
		view->clients.agent++;
		break;
	case KV_CLIENT_LENT:
		view->clients.lent++;
		break;
	}
	view->fill[VIEW_CLIENTS].used++;
	return 0;
}

static void count_upstreams(struct view *view)
{
	const struct kv_upstream *up;

	if (!view->meta.upstreams_per_backend)
		return;
	for (__u32 slot = 0; (up = kv_pins_upstream(view->pins, slot)); slot++) {
		__u32 backend = slot / view->meta.upstreams_per_backend;
		struct view_pool *pool = &view->pool[backend];

		if (backend >= KV_MAX_BACKENDS)
			break;
		switch (kv_read_once(up->state)) {
		case KV_UP_FREE:
			continue;
		case KV_UP_IDLE:
			pool->idle++;
			break;
		case KV_UP_RELAY:
			pool->relay++;
			break;
		case KV_UP_LENT:
			pool->lent++;
			break;
		case KV_UP_DONE:
			pool->done++;
			break;
		}
		view->fill[VIEW_UPSTREAMS].used++;
	}
}

static int fill_prefixes(struct view *view)
{
	struct view_fill *fill = &view->fill[VIEW_PREFIXES];
	struct prefix_count count = {};
	int err = kv_pins_each(view->pins, KV_PIN_kv_prefixes, count_prefixes, &count);

	fill->used = count.used;
	fill->crowded = count.full >= 0;
	return err;
}

/* An LRU map says nothing when it evicts; but nobody else takes its entries away. */
static int fill_sessions(struct view *view)
{
	struct view_fill *fill = &view->fill[VIEW_SESSIONS];
	__u64 inserted = view->counters[KV_CNT_session_inserted];
	int err = kv_pins_each(view->pins, KV_PIN_kv_sessions, count_entry, &fill->used);

	if (inserted > fill->used)
		fill->evicted = inserted - fill->used;
	fill->crowded = fill->used >= fill->max;
	return err;
}

static void name_fill(struct view *view, int fill, const char *name, enum kv_pin pin)
{
	view->fill[fill].name = name;
	view->fill[fill].max = view->pins->map[pin].max_entries;
}

int view_take(struct cli *cli, const struct kv_pins *pins, bool tables, struct view *ret)
{
	struct view *view = ret;
	int err;

	if (!view)
		return cli_error(cli, "out of memory");
	memset(view, 0, sizeof(*view));
	view->pins = pins;
	name_fill(view, VIEW_CLIENTS, "clients", KV_PIN_kv_clients);
	name_fill(view, VIEW_UPSTREAMS, "upstreams", KV_PIN_kv_upstreams);
	name_fill(view, VIEW_PREFIXES, "prefixes", KV_PIN_kv_prefixes);
	name_fill(view, VIEW_SESSIONS, "sessions", KV_PIN_kv_sessions);
	err = kv_pins_meta(pins, &view->meta);
	if (!err)
		err = kv_pins_counters(pins, view->counters);
	if (!err)
		err = kv_pins_each(pins, KV_PIN_kv_clients, count_client, view);
	view->fill[VIEW_PREFIXES].max *= KV_WAYS;
	view->fill[VIEW_PREFIXES].evicted = view->counters[KV_CNT_prefix_evicted];
	if (!err && tables)
		err = fill_prefixes(view) ?: fill_sessions(view);
	if (err)
		return cli_error(cli, "%s: cannot read the maps: %s", cli->pin, strerror(-err));
	count_upstreams(view);
	view->now_ns = kv_now_ns();
	view->alive = kv_meta_alive(&view->meta, view->now_ns);
	return 0;
}

const struct kv_service *view_service(const struct view *view, __u32 id)
{
	const struct kv_service *service = kv_pins_service(view->pins, id);

	return service && kv_read_once(service->flags) ? service : NULL;
}

const struct kv_backend *view_backend(const struct view *view, __u32 id)
{
	const struct kv_backend *backend = kv_pins_backend(view->pins, id);

	return backend && kv_read_once(backend->state) != KV_BACKEND_FREE ? backend : NULL;
}

__u32 view_service_id(const struct view *view, const char *name)
{
	for (__u32 i = 0; i < KV_MAX_SERVICES; i++) {
		const struct kv_service *service = view_service(view, i);

		if (service && !strncmp(service->name, name, KV_NAME_LEN))
			return i;
	}
	return KV_NONE;
}

int view_pick_service(struct cli *cli, const struct view *view, const char *name, __u32 *ret)
{
	*ret = KV_NONE;
	if (name) {
		*ret = view_service_id(view, name);
		if (*ret == KV_NONE)
			return cli_error(cli, "service \"%s\": there is none", name);
		return 0;
	}
	for (__u32 i = 0; i < KV_MAX_SERVICES && *ret == KV_NONE; i++)
		if (view_service(view, i))
			*ret = i;
	if (*ret == KV_NONE)
		return cli_error(cli, "%s: there is no service", cli->pin);
	return 0;
}

void view_total(const struct view *view, __u32 service, struct view_totals *ret)
{
	*ret = (struct view_totals){
		.express = view->counters[KV_CNT_requests_express],
		.agent = view->counters[KV_CNT_requests_agent],
		.refused = view->counters[KV_CNT_requests_refused],
	};
	ret->all = ret->express + ret->agent + ret->refused;
	for (__u32 i = 0; i < KV_MAX_BACKENDS; i++) {
		const struct kv_backend *backend = view_backend(view, i);

		if (!backend || (service != KV_NONE && backend->service != service))
			continue;
		ret->backends++;
		ret->backends_up += backend->state == KV_BACKEND_UP;
		ret->requests += backend->requests;
		ret->pool.idle += view->pool[i].idle;
		ret->pool.relay += view->pool[i].relay;
		ret->pool.lent += view->pool[i].lent;
		ret->pool.done += view->pool[i].done;
	}
}

const char *view_name(const char *name, char buf[KV_NAME_LEN])
{
	memcpy(buf, name, KV_NAME_LEN - 1);
	buf[KV_NAME_LEN - 1] = 0;
	return buf;
}

const char *view_backend_state(__u32 state)
{
	switch (state) {
	case KV_BACKEND_UP:
		return "up";
	case KV_BACKEND_DOWN:
		return "down";
	case KV_BACKEND_DRAINING:
		return "draining";
	default:
		return "free";
	}
}

const char *view_health(__u32 health)
{
	static const char *const names[] = {
		[KV_HEALTH_NONE] = "unknown",	 [KV_HEALTH_NEW] = "new",
		[KV_HEALTH_UP] = "up",		 [KV_HEALTH_DOWN] = "down",
		[KV_HEALTH_EJECTED] = "ejected", [KV_HEALTH_TRIAL] = "trial",
	};

	return health < sizeof(names) / sizeof(*names) ? names[health] : names[KV_HEALTH_NONE];
}

const char *view_backend_standing(const struct kv_backend *b)
{
	__u32 state = kv_read_once(b->state), health = kv_read_once(b->health);

	if ((state == KV_BACKEND_DOWN && health == KV_HEALTH_EJECTED) ||
	    (state == KV_BACKEND_UP && health == KV_HEALTH_TRIAL))
		return view_health(health);
	return view_backend_state(state);
}

const char *view_told(__u32 told)
{
	switch (told) {
	case KV_TOLD_UNSURE:
		return "unsure";
	case KV_TOLD_FOLLOWED:
		return "followed";
	case KV_TOLD_COMPLETE:
		return "complete";
	default:
		return "off";
	}
}

const char *view_service_state(const struct kv_service *service)
{
	if (service->flags & KV_SERVICE_DRAINING)
		return "draining";
	return service->flags & KV_SERVICE_UP ? "up" : "down";
}

__u32 view_listens(const struct kv_service *service)
{
	const __u32 max = sizeof(service->listen) / sizeof(*service->listen);

	return service->n_listen < max ? service->n_listen : max;
}

char *view_listen(const struct kv_service *service, __u32 i, char *buf, size_t size)
{
	struct kv_addr address;

	memcpy(&address, &service->listen[i], sizeof(address));
	return kv_addr_format(&address, buf, size);
}

char *view_address(const struct kv_backend *backend, char *buf, size_t size)
{
	struct kv_addr address = {.port = backend->port};

	memcpy(address.addr, backend->addr, sizeof(address.addr));
	return kv_addr_format(&address, buf, size);
}

double view_wait(const struct view *view, const struct kv_backend *backend)
{
	return (double)steering_wait(backend, view->now_ns) / (backend->rate ? backend->rate : 1);
}

// SPDX-License-Identifier: BSD-2-Clause
/* The agent's own pages: /metrics, /healthz, /readyz. */
#include <string.h>

#include "agent/follow_private.h"
#include "common/config_discover.h"
#include "common/log.h"
#include "common/version.h"

static size_t view_backends(struct following *f, struct view_backend *out,
			    char (*addresses)[KV_ADDR_TEXT])
{
	size_t n = 0;

	for (__u32 id = 0; id < f->agent->dp.max_backends; id++) {
		const struct followed *b = &f->backends[id];

		if (!b->known)
			continue;
		out[n] = (struct view_backend){
			.service = f->agent->dp.services[b->service].name,
			.name = b->name,
			.address = kv_addr_format(&b->addr, addresses[n], KV_ADDR_TEXT),
			.map = following_backend(f, id),
			.discount = kv_affinity_discount(f->agent->dp.services[b->service].affinity,
							 following_backend(f, id)),
		};
		follow_view(f->follow, id, &out[n]);
		n++;
	}
	return n;
}

/* By the maps: what the kernel goes by, and the pools know of first. */
static __u32 taking(const struct following *f, __u32 service)
{
	__u32 n = 0;

	for (__u32 id = 0; id < f->agent->dp.max_backends; id++)
		n += f->agent->dp.backends[id].state == KV_BACKEND_UP &&
		     f->agent->dp.backends[id].service == service;
	return n;
}

static size_t view_services(struct following *f, struct view_service *out)
{
	const struct kv_service *services = f->agent->dp.services;
	size_t n = 0;

	for (__u32 i = 0; i < KV_MAX_SERVICES; i++) {
		if (!services[i].flags)
			continue;
		out[n] = (struct view_service){.name = services[i].name,
					       .policy = kv_policy_name(services[i].policy)};
		follow_view_service(f->follow, i, &out[n]);
		if (kv_discovers(&services[i].discover)) {
			out[n].dns = services[i].discover.name;
			out[n].found = &services[i].found;
		}
		out[n++].taking = taking(f, i);
	}
	return n;
}

static struct page on_page(void *arg, const char *path)
{
	static struct view_backend backends[KV_MAX_BACKENDS];
	static char addresses[KV_MAX_BACKENDS][KV_ADDR_TEXT];
	static struct view_service services[KV_MAX_SERVICES];
	__u64 counters[KV_CNT_MAX];
	struct following *f = arg;
	struct view view = {
		.version = kv_version,
		.started = f->started,
		.now_ns = kv_now_ns(),
		.draining = f->agent->draining || !f->agent->ready,
		.services = services,
		.backends = backends,
	};

	if (f->pins && !kv_pins_counters(f->pins, counters))
		view.counters = counters;
	view.n_services = view_services(f, services);
	view.n_backends = view_backends(f, backends, addresses);
	return page_of(&view, path);
}

int following_serve(struct following *f, const struct kv_addr *http)
{
	char err[KV_CONFIG_ERROR_LEN], text[KV_ADDR_TEXT];
	int ret = page_server_open(f->agent->base, http, on_page, f, &f->server);

	if (ret) {
		kv_err("http: %s: %s", kv_addr_format(http, text, sizeof(text)), strerror(-ret));
		return ret;
	}
	if (*f->agent->dp.pin && kv_pins_open(f->agent->dp.pin, false, &f->pins, err, sizeof(err)))
		kv_warn("http: counters are not shown: %s", err);
	return 0;
}

void following_serve_end(struct following *f)
{
	page_server_close(f->server);
	kv_pins_close(f->pins);
	f->server = NULL;
	f->pins = NULL;
}

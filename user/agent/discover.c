// SPDX-License-Identifier: BSD-2-Clause
#include "agent/discover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/apply.h"
#include "agent/discover_private.h"
#include "common/config_discover.h"
#include "common/log.h"

#define TRY_MS 2000		    /* a question, once; there are two tries per server */
#define REFUSED_AGAIN (30 * SECOND) /* each try is a line of the log */

static const struct discovered *discovered_of(const struct agent *agent, const char *service)
{
	for (__u32 i = 0; agent->discovery && i < KV_MAX_SERVICES; i++)
		if (agent->discovery->of[i] && !strcmp(agent->discovery->of[i]->service, service))
			return agent->discovery->of[i];
	return NULL;
}

static bool is_named(const struct kv_config *config, const struct kv_addr *address)
{
	for (__u32 i = 0; i < config->n_services; i++)
		for (__u32 j = 0; j < config->services[i].n_backends; j++)
			if (kv_addr_equal(&config->services[i].backends[j].address, address))
				return true;
	return false;
}

/* ---- from the set to backends --------------------------------------------------------- */

static int add_one(struct discovered *d, const struct kv_addr *address)
{
	struct kv_config_backend backend = {
		.address = *address,
		.capacity = d->how.capacity,
		.rate = d->how.rate,
		.origin = KV_ORIGIN_DNS,
	};
	char err[KV_CONFIG_ERROR_LEN];
	int ret;

	kv_addr_format(address, backend.name, sizeof(backend.name));
	ret = apply_backend_add(d->agent, d->service, &backend, err, sizeof(err));
	if (!ret)
		kv_info("backend %s: added to service %s: found by %s", backend.name, d->service,
			d->how.name);
	else if (ret != -ENOSPC)
		kv_warn("discovery: %s: %s", d->how.name, err);
	return ret;
}

/* Those that are not there yet. One that somebody else has named is his. */
static void add_missing(struct discovered *d, __u64 now_ns)
{
	if (now_ns >= d->again_ns)
		d->refused = (struct address_set){};
	d->no_room = 0;
	for (__u32 i = 0; i < d->set.n; i++) {
		const struct kv_addr *address = &d->set.at[i];
		int err;

		if (is_named(d->agent->config, address) || address_set_has(&d->refused, address))
			continue;
		err = d->no_room ? -ENOSPC : add_one(d, address);
		if (err == -ENOSPC) {
			d->no_room++;
		} else if (err) {
			address_set_add(&d->refused, address);
			d->again_ns = now_ns + REFUSED_AGAIN;
		}
	}
}

static void remove_gone(struct discovered *d, const struct kv_config_service *service)
{
	char name[KV_NAME_LEN];

	/* From the end: those behind move up. */
	for (__u32 i = service->n_backends; i--;) {
		const struct kv_config_backend *backend = &service->backends[i];

		if (backend->origin != KV_ORIGIN_DNS || address_set_has(&d->set, &backend->address))
			continue;
		memcpy(name, backend->name, sizeof(name));
		kv_info("backend %s: not found by %s any more: leaves once its running requests "
			"end",
			name, d->how.name);
		apply_backend_take(d->agent, name);
	}
}

/* First those that come, as far as there is room, so that at no time nobody is there. */
static void look(struct discovered *d)
{
	const struct kv_config_service *service = kv_config_service(d->agent->config, d->service);
	__u64 now_ns = kv_now_ns();

	if (!service || d->agent->draining)
		return;
	add_missing(d, now_ns);
	remove_gone(d, service);
	if (d->no_room)
		add_missing(d, now_ns);
	discover_complain(d, now_ns);
	discover_note(d);
}

static void on_changed(void *arg, const struct address_set *set)
{
	struct discovered *d = arg;

	d->set = *set;
	d->again_ns = 0;
	look(d);
}

static void on_ended(void *arg)
{
	discover_note(arg);
}

void discover_second(struct agent *agent)
{
	for (__u32 i = 0; agent->discovery && i < KV_MAX_SERVICES; i++)
		if (agent->discovery->of[i])
			look(agent->discovery->of[i]);
}

/* ---- from the configuration to names -------------------------------------------------- */

static void end(struct discovered **d)
{
	if (!*d)
		return;
	dns_source_free((*d)->source);
	free(*d);
	*d = NULL;
}

static int begin(struct agent *agent, const struct kv_config_service *service,
		 struct discovered **ret)
{
	struct discovered *d = calloc(1, sizeof(*d));
	const struct kv_service_discover *how = &service->discover;
	struct dns_options options = {
		.name = how->name,
		.port = how->port,
		.servers = *how->servers ? how->servers : NULL,
		.timeout_ms = TRY_MS,
		.least_ms = how->min_ttl_ms,
		.most_ms = how->max_ttl_ms,
		.changed = on_changed,
		.ended = on_ended,
		.arg = d,
	};
	int err = d ? 0 : -ENOMEM;

	if (!err) {
		d->agent = agent;
		d->how = *how;
		memcpy(d->service, service->name, sizeof(d->service));
		for (__u32 i = 0; i < service->n_backends; i++)
			if (service->backends[i].origin == KV_ORIGIN_DNS)
				address_set_add(&d->set, &service->backends[i].address);
		options.known = &d->set;
		err = dns_source_new(agent->base, &options, &d->source);
	}
	if (err) {
		kv_err("service %s: discover.dns %s: cannot be followed: %s", service->name,
		       how->name, strerror(-err));
		free(d);
		return err;
	}
	*ret = d;
	return 0;
}

void discover_apply(struct agent *agent)
{
	struct discovery *all = agent->discovery;

	for (__u32 i = 0; all && i < KV_MAX_SERVICES; i++) {
		struct discovered *d = all->of[i];
		const struct kv_config_service *service =
			d ? kv_config_service(agent->config, d->service) : NULL;

		if (!service || !kv_discover_same_source(&service->discover, &d->how)) {
			end(&all->of[i]);
			continue;
		}
		d->how = service->discover;
		d->again_ns = 0;
	}
	for (__u32 i = 0, free_at = 0; all && i < agent->config->n_services; i++) {
		const struct kv_config_service *service = &agent->config->services[i];

		if (!kv_discovers(&service->discover) || discovered_of(agent, service->name))
			continue;
		while (all->of[free_at])
			free_at++;
		begin(agent, service, &all->of[free_at]);
	}
	discover_second(agent);
}

int discover_open(struct agent *agent)
{
	agent->discovery = calloc(1, sizeof(*agent->discovery));
	if (!agent->discovery) {
		kv_err("out of memory");
		return -ENOMEM;
	}
	discover_apply(agent);
	return 0;
}

void discover_close(struct agent *agent)
{
	for (__u32 i = 0; agent->discovery && i < KV_MAX_SERVICES; i++)
		end(&agent->discovery->of[i]);
	free(agent->discovery);
	agent->discovery = NULL;
}

/* ---- what a file does not name ---------------------------------------------------------- */

static bool name_taken(const struct kv_config *config, const char *name)
{
	for (__u32 i = 0; i < config->n_services; i++)
		for (__u32 j = 0; j < config->services[i].n_backends; j++)
			if (!strcmp(config->services[i].backends[j].name, name))
				return true;
	return false;
}

static bool listens_there(const struct kv_config *config, const struct kv_addr *address)
{
	for (__u32 i = 0; i < config->n_services; i++)
		for (__u32 j = 0; j < config->services[i].n_listen; j++)
			if (kv_addr_equal(&config->services[i].listen[j], address))
				return true;
	return false;
}

/* Whether a name stands for this one, which runs. One of the file is among them, so that it goes
 * on as one that is found. */
static bool is_found(const struct agent *agent, const char *service,
		     const struct kv_config_backend *backend)
{
	const struct discovered *d = discovered_of(agent, service);
	char text[KV_ADDR_TEXT];

	if (backend->origin != KV_ORIGIN_DNS &&
	    (!d || !address_set_has(&d->set, &backend->address)))
		return false;
	return !strcmp(backend->name, kv_addr_format(&backend->address, text, sizeof(text)));
}

static int keep_one(struct kv_config_service *service, const struct kv_config_backend *from)
{
	struct kv_config_backend *grown =
		realloc(service->backends, (service->n_backends + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	service->backends = grown;
	grown[service->n_backends] = (struct kv_config_backend){
		.address = from->address,
		.capacity = service->discover.capacity,
		.rate = service->discover.rate,
		.origin = KV_ORIGIN_DNS,
	};
	memcpy(grown[service->n_backends++].name, from->name, sizeof(from->name));
	return 0;
}

int discover_keep(struct agent *agent, struct kv_config *to)
{
	for (__u32 i = 0; i < to->n_services; i++) {
		struct kv_config_service *service = &to->services[i];
		const struct kv_config_service *from =
			kv_config_service(agent->config, service->name);

		if (!kv_discovers(&service->discover) || !from)
			continue;
		for (__u32 j = 0; j < from->n_backends; j++) {
			const struct kv_config_backend *backend = &from->backends[j];

			if (!is_found(agent, from->name, backend) ||
			    is_named(to, &backend->address) || name_taken(to, backend->name) ||
			    listens_there(to, &backend->address))
				continue;
			if (keep_one(service, backend))
				return -ENOMEM;
		}
	}
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/config_discover.h"
#include "common/config_read.h"

#define VERIFY_PATH_LEN 96

/* One thing that must be unique, and where it stands. */
struct place {
	char path[VERIFY_PATH_LEN];
	const struct kv_config_service *service;
	const struct kv_config_backend *backend;
	const struct kv_addr *listen;
};

static struct place backend_place(const struct kv_config *config, __u32 s, __u32 b, const char *key)
{
	struct place p = {
		.service = &config->services[s],
		.backend = &config->services[s].backends[b],
	};

	snprintf(p.path, sizeof(p.path), "services[%u].backends[%u]%s%s", s, b, *key ? "." : "",
		 key);
	return p;
}

static int verify_backend(const struct kv_config *config, struct kv_tree *tree, __u32 s, __u32 b)
{
	const struct kv_config_backend *mine = &config->services[s].backends[b];
	char text[KV_ADDR_TEXT];

	for (__u32 i = 0; i <= s; i++) {
		const struct kv_config_service *service = &config->services[i];

		for (__u32 j = 0; j < (i == s ? b : service->n_backends); j++) {
			const struct kv_config_backend *other = &service->backends[j];
			struct place there = backend_place(config, i, j, "");

			/* The address first: a backend without a name is called by it. */
			if (kv_addr_equal(&mine->address, &other->address))
				return kv_config_refuse(
					tree, backend_place(config, s, b, "address").path,
					"%s is also the address of %s (\"%s\"): expected each "
					"engine once",
					kv_addr_format(&mine->address, text, sizeof(text)),
					there.path, other->name);
			if (!strcmp(mine->name, other->name))
				return kv_config_refuse(
					tree, backend_place(config, s, b, "name").path,
					"\"%s\" is also the name of %s: expected a name of its "
					"own",
					mine->name, there.path);
		}
	}
	return 0;
}

/* Two listeners that the kernel would not let exist at once, or that are one. */
static bool collide(const struct kv_addr *a, const struct kv_addr *b)
{
	if (a->port != b->port)
		return false;
	return kv_addr_is_any(a) || kv_addr_is_any(b) || kv_addr_equal(a, b);
}

static int verify_listen(const struct kv_config *config, struct kv_tree *tree, __u32 s, __u32 l)
{
	const struct kv_addr *mine = &config->services[s].listen[l];
	char path[VERIFY_PATH_LEN], text[KV_ADDR_TEXT], text2[KV_ADDR_TEXT];

	snprintf(path, sizeof(path), "services[%u].listen[%u]", s, l);
	kv_addr_format(mine, text, sizeof(text));
	for (__u32 i = 0; i <= s; i++)
		for (__u32 j = 0; j < (i == s ? l : config->services[i].n_listen); j++)
			if (collide(mine, &config->services[i].listen[j]))
				return kv_config_refuse(
					tree, path,
					"%s collides with %s of service \"%s\": expected another "
					"address or port",
					text,
					kv_addr_format(&config->services[i].listen[j], text2,
						       sizeof(text2)),
					config->services[i].name);
	for (__u32 i = 0; i < config->n_services; i++)
		for (__u32 j = 0; j < config->services[i].n_backends; j++)
			if (kv_addr_equal(mine, &config->services[i].backends[j].address))
				return kv_config_refuse(
					tree, backend_place(config, i, j, "address").path,
					"%s is what service \"%s\" listens on: expected an "
					"engine's address",
					text, config->services[s].name);
	return 0;
}

static int verify_service(const struct kv_config *config, struct kv_tree *tree, __u32 s)
{
	char path[VERIFY_PATH_LEN];
	int err = 0;

	for (__u32 i = 0; i < s; i++)
		if (!strcmp(config->services[i].name, config->services[s].name)) {
			snprintf(path, sizeof(path), "services[%u].name", s);
			return kv_config_refuse(tree, path,
						"\"%s\" is also the name of services[%u]: expected "
						"a name of its own",
						config->services[s].name, i);
		}
	for (__u32 l = 0; !err && l < config->services[s].n_listen; l++)
		err = verify_listen(config, tree, s, l);
	for (__u32 b = 0; !err && b < config->services[s].n_backends; b++)
		err = verify_backend(config, tree, s, b);
	return err;
}

static int verify_lists(const struct kv_config *config, struct kv_tree *tree)
{
	char path[VERIFY_PATH_LEN];

	for (__u32 i = 0; i < config->n_interfaces; i++)
		for (__u32 j = 0; j < i; j++)
			if (!strcmp(config->interfaces[i], config->interfaces[j])) {
				snprintf(path, sizeof(path), "interfaces[%u]", i);
				return kv_config_refuse(tree, path,
							"\"%s\" is given twice: expected it once",
							config->interfaces[i]);
			}
	for (__u32 i = 0; i < config->n_session_headers; i++)
		for (__u32 j = 0; j < i; j++)
			if (!strcmp(config->session_headers[i], config->session_headers[j])) {
				snprintf(path, sizeof(path), "session_headers[%u]", i);
				return kv_config_refuse(tree, path,
							"\"%s\" is given twice: expected it once",
							config->session_headers[i]);
			}
	return 0;
}

int kv_config_verify(const struct kv_config *config, struct kv_tree *tree)
{
	__u32 n = 0;
	int err = verify_lists(config, tree);

	for (__u32 s = 0; !err && s < config->n_services; s++) {
		err = verify_service(config, tree, s);
		n += config->services[s].n_backends;
	}
	if (!err)
		err = kv_config_verify_discover(config, tree);
	if (err)
		return err;
	if (config->limits.clients > config->max_clients)
		return kv_config_refuse(tree, "limits.clients",
					"%u is more than max_clients (%u): expected at most that",
					config->limits.clients, config->max_clients);
	if (config->limits.memory < config->limits.body)
		return kv_config_refuse(tree, "limits.memory",
					"less than limits.body: expected room for one body");
	if (config->limits.memory_per_address &&
	    config->limits.memory_per_address < config->limits.body)
		return kv_config_refuse(tree, "limits.memory_per_address",
					"less than limits.body: expected room for one body, or 0");
	for (__u32 s = 0; s < config->n_services; s++)
		for (__u32 l = 0; config->http.port && l < config->services[s].n_listen; l++)
			if (collide(&config->http, &config->services[s].listen[l]))
				return kv_config_refuse(tree, "http",
							"collides with an address of service "
							"\"%s\": expected another address or port",
							config->services[s].name);
	if (n > config->max_backends)
		return kv_config_refuse(tree, "services",
					"%u backends in all: expected at most max_backends (%u)", n,
					config->max_backends);
	return 0;
}

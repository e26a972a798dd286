// SPDX-License-Identifier: BSD-2-Clause
#include "common/config_discover.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/config_reader.h"

#define MIN_TTL_MS 1000
#define MAX_TTL_MS (5 * 60 * 1000)
#define NAME_MOST 253 /* RFC 1035: 255 octets with the lengths of first label and root */
#define LABEL_MOST 63
#define LABEL_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

/* An address would pass for a name that nobody has: the last label is no number (RFC 3696). */
static bool name_ok(const char *name)
{
	const char *label = name;
	size_t len = 0;

	if (strlen(name) > NAME_MOST)
		return false;
	for (;; label += len + 1) {
		len = strspn(label, LABEL_CHARS);
		if (!len || len > LABEL_MOST)
			return false;
		if (!label[len])
			break;
		if (label[len] != '.')
			return false;
		if (!label[len + 1]) /* of the root */
			break;
	}
	return strspn(label, "0123456789") != len;
}

/* As the resolver wants them: all in one text. */
static int read_servers(struct reader *r, const struct kv_raw_discover *raw,
			struct kv_service_discover *discover)
{
	char key[64], text[KV_ADDR_TEXT];
	struct kv_addr addr;
	size_t n = 0;

	for (unsigned int i = 0; i < raw->servers_count; i++) {
		snprintf(key, sizeof(key), "servers[%u]", i);
		if (kv_addr_parse(raw->servers[i], &addr) || kv_addr_is_any(&addr))
			return config_bad_value(r, key, raw->servers[i]);
		n += snprintf(discover->servers + n, sizeof(discover->servers) - n, "%s%s",
			      i ? "," : "", kv_addr_format(&addr, text, sizeof(text)));
	}
	return 0;
}
_Static_assert(KV_CONFIG_DNS_SERVERS *(KV_ADDR_TEXT + 1) <= KV_DNS_SERVERS_LEN, "there is room");

int config_read_discover(struct reader *r, const struct kv_raw_discover *raw, __u32 index,
			 struct kv_service_discover *discover)
{
	bool srv = false;
	int err;

	if (!raw)
		return 0;
	snprintf(r->scope, sizeof(r->scope), "services[%u].discover", index);
	if (!name_ok(raw->dns))
		return config_bad_value(r, "dns", raw->dns);
	strcpy(discover->name, raw->dns);
	discover->min_ttl_ms = MIN_TTL_MS;
	discover->max_ttl_ms = MAX_TTL_MS;
	err = config_read_port(r, "port", raw->port, &discover->port)
		?: config_read_flag(r, "srv", raw->srv, &srv)
		?: read_servers(r, raw, discover)
		?: config_read_number32(r, "min_ttl", raw->min_ttl, &discover->min_ttl_ms);
	/* One that is given raises the other's default. */
	if (!err && discover->max_ttl_ms < discover->min_ttl_ms)
		discover->max_ttl_ms = discover->min_ttl_ms;
	if (!err)
		err = config_read_number32(r, "max_ttl", raw->max_ttl, &discover->max_ttl_ms);
	if (err)
		return err;
	if (!discover->port == !srv)
		return kv_config_refuse(r->tree, r->scope,
					"expected either port (of the addresses that the name "
					"has) or srv: true (SRV records have ports)");
	if (discover->max_ttl_ms >= discover->min_ttl_ms)
		return 0;
	snprintf(r->scope, sizeof(r->scope), "services[%u].discover.max_ttl", index);
	return kv_config_refuse(r->tree, r->scope, "less than min_ttl: expected at least that");
}

bool kv_discover_same_source(const struct kv_service_discover *a,
			     const struct kv_service_discover *b)
{
	return a->port == b->port && !strcmp(a->name, b->name) && !strcmp(a->servers, b->servers) &&
	       a->min_ttl_ms == b->min_ttl_ms && a->max_ttl_ms == b->max_ttl_ms;
}

char *kv_discover_format(const struct kv_service_discover *discover, char *buf, size_t size)
{
	if (!kv_discovers(discover))
		snprintf(buf, size, "off");
	else if (discover->port)
		snprintf(buf, size, "%s port %u", discover->name, discover->port);
	else
		snprintf(buf, size, "%s SRV", discover->name);
	return buf;
}

const char *kv_origin_name(__u32 origin)
{
	static const char *const names[] = {
		[KV_ORIGIN_CONFIG] = "config",
		[KV_ORIGIN_HAND] = "hand",
		[KV_ORIGIN_DNS] = "dns",
	};

	return origin < sizeof(names) / sizeof(*names) ? names[origin] : "unknown";
}

int kv_config_verify_discover(const struct kv_config *config, struct kv_tree *tree)
{
	char path[96];

	for (__u32 s = 0; s < config->n_services; s++)
		for (__u32 i = 0; i < s; i++) {
			const struct kv_service_discover *a = &config->services[i].discover;
			const struct kv_service_discover *b = &config->services[s].discover;

			if (!kv_discovers(b) || a->port != b->port || strcasecmp(a->name, b->name))
				continue;
			snprintf(path, sizeof(path), "services[%u].discover.dns", s);
			return kv_config_refuse(tree, path,
						"\"%s\" is also that of services[%u] (\"%s\"): "
						"expected each engine in one service",
						b->name, i, config->services[i].name);
		}
	return 0;
}

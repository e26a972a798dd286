// SPDX-License-Identifier: BSD-2-Clause
#include "common/config_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvsteer/fields.h>

#include "common/config_values.h"

#define READ_QUOTE_LEN 96
#define USER_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
#define WORD_CHARS                                                                                 \
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"                           \
	"-._:[]"

/* ---- single values -------------------------------------------------------------------- */

int config_bad_value(struct reader *r, const char *key, const char *text)
{
	char path[2 * READ_PATH_LEN], plain[READ_PATH_LEN], quoted[READ_QUOTE_LEN];

	snprintf(path, sizeof(path), "%s%s%s", r->scope, *r->scope ? "." : "", key);
	kv_config_key(path, plain, sizeof(plain));
	return kv_config_refuse(r->tree, path, "found %s: expected %s",
				*text ? kv_quote(text, quoted, sizeof(quoted)) : "nothing",
				kv_config_expected(plain));
}

/* A value that is not given leaves *value as it is: the default. */
int config_read_number(struct reader *r, const char *key, const char *text, __u64 *value)
{
	const struct kv_config_rule *rule = kv_config_rule(key);
	__u64 number;

	if (!text)
		return 0;
	if (rule->parse(text, &number) || number < rule->min || number > rule->max)
		return config_bad_value(r, key, text);
	*value = number;
	return 0;
}

int config_read_number32(struct reader *r, const char *key, const char *text, __u32 *value)
{
	__u64 number = *value;
	int err = config_read_number(r, key, text, &number);

	*value = number;
	return err;
}

int config_read_flag(struct reader *r, const char *key, const char *text, bool *value)
{
	if (!text)
		return 0;
	if (strcmp(text, "true") && strcmp(text, "false"))
		return config_bad_value(r, key, text);
	*value = *text == 't';
	return 0;
}

static int read_path(struct reader *r, const char *key, const char *text, const char *otherwise,
		     char *ret, size_t size)
{
	if (text && (text[0] != '/' || strlen(text) >= size))
		return config_bad_value(r, key, text);
	snprintf(ret, size, "%s", text ? text : otherwise);
	return 0;
}

bool kv_config_name_ok(const char *name)
{
	size_t len = strlen(name);

	return len && len < KV_NAME_LEN && strspn(name, WORD_CHARS) == len && name[0] != '-';
}

static int read_name(struct reader *r, const char *text, char ret[KV_NAME_LEN])
{
	if (!kv_config_name_ok(text))
		return config_bad_value(r, "name", text);
	strcpy(ret, text);
	return 0;
}

/* As the kernel's dev_valid_name. */
static int read_interface(struct reader *r, const char *key, const char *text, char ret[IFNAMSIZ])
{
	size_t len = strlen(text);

	if (!len || len >= IFNAMSIZ || strpbrk(text, "/: \t\n\v\f\r") || !strcmp(text, ".") ||
	    !strcmp(text, ".."))
		return config_bad_value(r, key, text);
	memcpy(ret, text, len + 1);
	return 0;
}

/* By the parser's own rules: what it takes here it finds in requests. */
static int read_headers(struct reader *r, const struct kv_raw_config *raw, struct kv_config *config)
{
	struct kv_names names = {0};
	char key[64];

	if (!raw->session_headers_count && !kv_tree_has(r->tree, "session_headers"))
		kv_names_default(&names);
	for (__u32 i = 0; i < raw->session_headers_count; i++) {
		snprintf(key, sizeof(key), "session_headers[%u]", i);
		if (kv_names_add(&names, raw->session_headers[i]))
			return config_bad_value(r, key, raw->session_headers[i]);
	}
	memcpy(config->session_headers, names.name, sizeof(names.name));
	config->n_session_headers = names.n;
	if (!raw->tenancy)
		return 0;
	if (kv_names_set_tenant(&names, raw->tenancy->header))
		return config_bad_value(r, "tenancy.header", raw->tenancy->header);
	memcpy(config->tenant_header, names.tenant, sizeof(names.tenant));
	return 0;
}

/* Whether there is such a user is asked at start: a file may be checked elsewhere. */
static int read_user(struct reader *r, const char *text, struct kv_config *config)
{
	if (!text)
		return 0;
	if (!*text || strlen(text) >= sizeof(config->user) || *text == '-' ||
	    strspn(text, USER_CHARS) != strlen(text))
		return config_bad_value(r, "user", text);
	strcpy(config->user, text);
	return 0;
}

/* ---- the parts ------------------------------------------------------------------------ */

static int read_interfaces(struct reader *r, const struct kv_raw_config *raw,
			   struct kv_config *config)
{
	char key[64];
	int err;

	for (__u32 i = 0; i < raw->interfaces_count; i++) {
		snprintf(key, sizeof(key), "interfaces[%u]", i);
		err = read_interface(r, key, raw->interfaces[i], config->interfaces[i]);
		if (err)
			return err;
		config->n_interfaces++;
	}
	return 0;
}

static int read_instance(struct reader *r, const struct kv_raw_config *raw,
			 struct kv_config *config)
{
	int err;

	config->max_backends = 64;
	config->upstreams_per_backend = 256;
	config->max_clients = 65536;
	config->max_prefixes = 1048576;
	config->max_sessions = 131072;
	err = read_path(r, "pin", raw->pin, KV_DEFAULT_PIN, config->pin, sizeof(config->pin))
		?: read_path(r, "control", raw->control, KV_DEFAULT_CONTROL, config->control,
			     sizeof(config->control))
		?: config_read_number32(r, "max_backends", raw->max_backends, &config->max_backends)
		?: config_read_number32(r, "upstreams_per_backend", raw->upstreams_per_backend,
				 &config->upstreams_per_backend)
		?: config_read_number32(r, "max_clients", raw->max_clients, &config->max_clients)
		?: config_read_number32(r, "max_prefixes", raw->max_prefixes, &config->max_prefixes)
		?: config_read_number32(r, "max_sessions", raw->max_sessions, &config->max_sessions)
		?: read_interfaces(r, raw, config) ?: read_headers(r, raw, config)
		?: read_user(r, raw->user, config)
		?: config_read_flag(r, "watch", raw->watch, &config->watch);
	if (!err && config->upstreams_per_backend % 64)
		return config_bad_value(r, "upstreams_per_backend", raw->upstreams_per_backend);
	return err;
}

static int read_timeouts(struct reader *r, const struct kv_raw_timeouts *raw,
			 struct kv_config *config)
{
	static const struct kv_raw_timeouts none;

	config->timeouts.client_idle_ms = 5 * 60 * 1000;
	config->timeouts.request_ms = 60 * 1000;
	config->timeouts.response_ms = 60 * 60 * 1000;
	config->timeouts.probe_ms = 15 * 1000;
	config->timeouts.drain_ms = 30 * 1000;
	config->timeouts.connect_ms = 3 * 1000;
	if (!raw)
		raw = &none;
	strcpy(r->scope, "timeouts");
	return config_read_number(r, "client_idle", raw->client_idle, &config->timeouts.client_idle_ms)
		?: config_read_number(r, "request", raw->request, &config->timeouts.request_ms)
		?: config_read_number(r, "response", raw->response, &config->timeouts.response_ms)
		?: config_read_number(r, "probe", raw->probe, &config->timeouts.probe_ms)
		?: config_read_number(r, "drain", raw->drain, &config->timeouts.drain_ms)
		?: config_read_number(r, "connect", raw->connect, &config->timeouts.connect_ms);
}

static int read_limits(struct reader *r, const struct kv_raw_limits *raw, struct kv_config *config)
{
	static const struct kv_raw_limits none;

	config->limits.body = 64ull << 20;
	config->limits.memory = 1ull << 30;
	config->limits.clients = config->max_clients;
	config->limits.events = 1ull << 30;
	if (!raw)
		raw = &none;
	strcpy(r->scope, "limits");
	return config_read_number(r, "body", raw->body, &config->limits.body)
		?: config_read_number(r, "memory", raw->memory, &config->limits.memory)
		?: config_read_number32(r, "clients", raw->clients, &config->limits.clients)
		?: config_read_number(r, "events", raw->events, &config->limits.events)
		?: config_read_number32(r, "clients_per_address", raw->clients_per_address,
				 &config->limits.clients_per_address)
		?: config_read_number(r, "memory_per_address", raw->memory_per_address,
			       &config->limits.memory_per_address);
}

static int read_rate(struct reader *r, const char *text, __u64 *ret)
{
	if (!text || strcmp(text, "learned"))
		return config_read_number(r, "rate", text, ret);
	*ret = 0;
	return 0;
}

static int read_trace(struct reader *r, const struct kv_raw_trace *raw, struct kv_config *config)
{
	__u32 n;
	int err;

	config->trace.requests = 4096;
	config->trace.sample = 1;
	if (!raw)
		return 0;
	strcpy(r->scope, "trace");
	err = config_read_number32(r, "requests", raw->requests, &config->trace.requests)
		      ?: config_read_number32(r, "sample", raw->sample, &config->trace.sample);
	n = config->trace.requests;
	if (!err && n && (n < KV_TRACE_MIN || n & (n - 1)))
		return config_bad_value(r, "requests", raw->requests);
	return err;
}

static int read_backend(struct reader *r, const struct kv_raw_backend *raw,
			struct kv_config_backend *backend)
{
	char text[KV_ADDR_TEXT];

	if (kv_addr_parse(raw->address, &backend->address) || kv_addr_is_any(&backend->address))
		return config_bad_value(r, "address", raw->address);
	return read_name(r, raw->name ?: kv_addr_format(&backend->address, text, sizeof(text)),
			 backend->name)
		?: config_read_number(r, "capacity", raw->capacity, &backend->capacity)
		?: read_rate(r, raw->rate, &backend->rate)
		?: config_read_port(r, "events_port", raw->events_port, &backend->events_port)
		?: config_read_port(r, "replay_port", raw->replay_port, &backend->replay_port);
}

static int read_service_values(struct reader *r, const struct kv_raw_service *raw,
			       struct kv_config_service *service)
{
	char key[64];
	int err = read_name(r, raw->name, service->name)
		?: config_read_number32(r, "floor", raw->floor, &service->floor)
		?: config_read_number(r, "body_limit", raw->body_limit, &service->body_limit)
		?: config_read_flag(r, "answer_header", raw->answer_header, &service->answer_header);

	if (err)
		return err;
	if (raw->policy && kv_policy_parse(raw->policy, &service->policy))
		return config_bad_value(r, "policy", raw->policy);
	if (raw->affinity && kv_affinity_parse(raw->affinity, &service->affinity))
		return config_bad_value(r, "affinity", raw->affinity);
	for (__u32 i = 0; i < raw->listen_count; i++) {
		snprintf(key, sizeof(key), "listen[%u]", i);
		if (kv_addr_parse(raw->listen[i], &service->listen[i]))
			return config_bad_value(r, key, raw->listen[i]);
		service->n_listen++;
	}
	return 0;
}

static int read_service(struct reader *r, const struct kv_raw_service *raw, __u32 index,
			struct kv_config_service *service)
{
	/* Capacity and rate of the service are its backends' defaults. */
	struct kv_config_backend defaults = {};
	int err;

	snprintf(r->scope, sizeof(r->scope), "services[%u]", index);
	err = read_service_values(r, raw, service)
		?: config_read_number(r, "capacity", raw->capacity, &defaults.capacity)
		?: read_rate(r, raw->rate, &defaults.rate)
		?: config_read_events(r, raw->events, index, &service->events)
		?: config_read_discover(r, raw->discover, index, &service->discover);
	if (err)
		return err;
	if (raw->discover) {
		service->discover.capacity = defaults.capacity;
		service->discover.rate = defaults.rate;
	}
	if (!raw->backends_count)
		return 0;
	service->backends = calloc(raw->backends_count, sizeof(*service->backends));
	if (!service->backends)
		return -ENOMEM;
	for (__u32 i = 0; i < raw->backends_count; i++) {
		snprintf(r->scope, sizeof(r->scope), "services[%u].backends[%u]", index, i);
		service->backends[i] = defaults;
		service->n_backends++;
		err = read_backend(r, &raw->backends[i], &service->backends[i]);
		if (err)
			return err;
	}
	return 0;
}

int kv_config_read(struct kv_config *config, const struct kv_raw_config *raw, struct kv_tree *tree)
{
	struct reader r = {.tree = tree};
	int err = read_instance(&r, raw, config) ?: read_timeouts(&r, raw->timeouts, config)
		?: read_limits(&r, raw->limits, config) ?: read_trace(&r, raw->trace, config)
		?: config_read_follow(&r, raw, config);

	if (err)
		return err;
	config->services = calloc(raw->services_count, sizeof(*config->services));
	if (!config->services)
		return -ENOMEM;
	for (__u32 i = 0; i < raw->services_count; i++) {
		config->services[i].body_limit = config->limits.body;
		config->n_services++;
		err = read_service(&r, &raw->services[i], i, &config->services[i]);
		if (err)
			return err;
	}
	return kv_config_verify(config, tree);
}

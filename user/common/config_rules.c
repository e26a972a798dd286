// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/config_read.h"
#include "common/config_values.h"

#define RULE_KEY_LEN 160
#define HOUR_MS (3600ull * 1000)
#define GIB (1ull << 30)

#define COUNT kv_parse_count
#define BYTES kv_parse_bytes
#define TIME kv_parse_duration

static const struct kv_config_rule rules[] = {
	{"pin", NULL, 0, 0, "an absolute path on a bpf file system, up to 255 bytes"},
	{"control", NULL, 0, 0, "an absolute path, up to 107 bytes"},
	{"interfaces", NULL, 0, 0, "a name of an interface, up to 15 bytes"},
	{"session_headers", NULL, 0, 0,
	 "a header name, up to 31 bytes, that has no meaning in HTTP/1.1 framing"},
	{"user", NULL, 0, 0, "the name of a user of this host, up to 31 letters, digits, - and _"},
	{"header", NULL, 0, 0,
	 "a header name, up to 31 bytes, that is no session header and has no meaning in HTTP/1.1 "
	 "framing"},
	{"max_backends", COUNT, 1, 256, "a whole number from 1 to 256"},
	{"upstreams_per_backend", COUNT, 64, 1024, "a multiple of 64 from 64 to 1024"},
	{"max_clients", COUNT, 64, 4194304, "a whole number from 64 to 4194304"},
	{"max_prefixes", COUNT, 1024, 67108864, "a whole number from 1024 to 67108864"},
	{"max_sessions", COUNT, 64, 67108864, "a whole number from 64 to 67108864"},
	{"client_idle", TIME, 1000, 24 * HOUR_MS, "a time with its unit from 1s to 24h"},
	{"request", TIME, 1000, 24 * HOUR_MS, "a time with its unit from 1s to 24h"},
	{"response", TIME, 1000, 24 * HOUR_MS, "a time with its unit from 1s to 24h"},
	{"probe", TIME, 0, 24 * HOUR_MS, "a time with its unit from 0s (off) to 24h"},
	{"drain", TIME, 0, 24 * HOUR_MS, "a time with its unit from 0s to 24h"},
	{"connect", TIME, 10, 60000, "a time with its unit from 10ms to 1min"},
	{"body", BYTES, 1024, GIB, "a size from 1KiB to 1GiB"},
	{"memory", BYTES, 16 << 20, 1024 * GIB, "a size from 16MiB to 1024GiB"},
	{"clients", COUNT, 1, 4194304, "a whole number from 1 to 4194304"},
	{"events", BYTES, 16 << 20, 1024 * GIB, "a size from 16MiB to 1024GiB"},
	{"clients_per_address", COUNT, 0, 4194304, "a whole number to 4194304; 0: no limit"},
	{"memory_per_address", BYTES, 0, 1024 * GIB, "a size to 1024GiB; 0: no limit"},
	{"requests", COUNT, 0, KV_TRACE_MAX, "0 (off) or a power of two from 64 to 1048576"},
	{"sample", COUNT, 0, 1000000, "one request in how many, to 1000000; 0: none"},
	{"watch", NULL, 0, 0, "true or false"},
	{"http", NULL, 0, 0, KV_ADDR_EXPECTED ", or *:PORT for any address"},
	{"health_path", NULL, 0, 0,
	 "a path that begins with /, up to 127 characters without spaces and #"},
	{"health", TIME, 0, HOUR_MS, "a time with its unit from 0s (not asked) to 1h"},
	{"models", TIME, 0, HOUR_MS, "a time with its unit from 0s (not asked) to 1h"},
	{"metrics", TIME, 0, HOUR_MS, "a time with its unit from 0s (not asked) to 1h"},
	{"health_timeout", TIME, 10, 60000, "a time with its unit from 10ms to 1min"},
	{"metrics_timeout", TIME, 10, 60000, "a time with its unit from 10ms to 1min"},
	{"stale", TIME, 100, HOUR_MS, "a time with its unit from 100ms to 1h"},
	{"fall", COUNT, 1, 100, "a whole number from 1 to 100"},
	{"eject_percent", COUNT, 1, 100, "percent, a whole number from 1 to 100"},
	{"eject_least", COUNT, 1, 10000, "a whole number from 1 to 10000"},
	{"eject_share", COUNT, 0, 100, "percent, a whole number from 0 (never) to 100"},
	{"eject_time", TIME, 100, HOUR_MS, "a time with its unit from 100ms to 1h"},
	{"slow_start", TIME, 0, HOUR_MS, "a time with its unit from 0s (none) to 1h"},
	{"trial_successes", COUNT, 1, 1000, "a whole number from 1 to 1000"},
	{"services", NULL, 0, 0, "a list of services"},
	{"name", NULL, 0, 0, "1 to 63 letters, digits and -._:[]"},
	{"listen", NULL, 0, 0, KV_ADDR_EXPECTED ", or *:PORT for any address"},
	{"policy", NULL, 0, 0, NULL},
	{"floor", COUNT, 0, 16777216, "tokens, from 0 to 16777216"},
	{"affinity", NULL, 0, 0, "auto, full or off"},
	{"body_limit", BYTES, 1024, GIB, "a size from 1KiB to 1GiB"},
	{"answer_header", NULL, 0, 0, "true or false"},
	{"address", NULL, 0, 0, KV_ADDR_EXPECTED},
	{"capacity", kv_parse_capacity, 1, 1ull << 36,
	 "tokens, or BLOCKSxSIZE as 8192x16, from 1 to 2^36 tokens in all"},
	{"rate", COUNT, 1, 1000000000, "tokens per second, from 1 to 1000000000, or \"learned\""},
	{"events_port", COUNT, 1, 65535, "a port from 1 to 65535"},
	{"replay_port", COUNT, 1, 65535, "a port from 1 to 65535"},
	{"model", NULL, 0, 0, "the model's name as requests have it, up to 255 bytes"},
	{"port", COUNT, 1, 65535, "a port from 1 to 65535"},
	{"bind", NULL, 0, 0, KV_ADDR_EXPECTED ", or *:PORT for any address"},
	{"poll", NULL, 0, 0, "a path that begins with /, up to 95 characters without spaces and #"},
	{"topic", NULL, 0, 0, "the beginning of a topic, up to 95 bytes"},
	{"dns", NULL, 0, 0,
	 "a DNS name, whole, up to 253 bytes of letters, digits, -, _ and dots; addresses belong "
	 "into "
	 "backends"},
	{"srv", NULL, 0, 0, "true or false"},
	{"servers", NULL, 0, 0, KV_ADDR_EXPECTED},
	{"min_ttl", TIME, 100, 24 * HOUR_MS, "a time with its unit from 100ms to 24h"},
	{"max_ttl", TIME, 100, 24 * HOUR_MS, "a time with its unit from 100ms to 24h"},
	{"ranks", COUNT, 1, 64, "a whole number from 1 to 64"},
	{"first", COUNT, 0, 1, "0 or 1"},
	{"block", COUNT, 1, 65536, "tokens, from 1 to 65536"},
	{"lora", NULL, 0, 0, "model or field"},
	{"cpu", COUNT, 0, 100, "percent, from 0 to 100"},
	{"disk", COUNT, 0, 100, "percent, from 0 to 100"},
	{"external", COUNT, 0, 100, "percent, from 0 to 100"},
};

static const struct {
	const char *key;
	const char *option;
} options[] = {
	{"pin", "--pin"},	{"control", "--control"},
	{"listen", "--listen"}, {"interfaces", "--interface"},
	{"policy", "--policy"}, {"address", "--backend"},
};

const struct kv_config_rule *kv_config_rule(const char *key)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
		if (!strcmp(rules[i].key, key))
			return &rules[i];
	return NULL;
}

const char *kv_config_expected(const char *key)
{
	const struct kv_config_rule *rule = kv_config_rule(key);

	if (!rule)
		return "a value";
	return rule->expected ? rule->expected : kv_policy_names();
}

void kv_config_key(const char *path, char *key, size_t size)
{
	const char *dot = strrchr(path, '.');
	const char *word = dot ? dot + 1 : path;

	snprintf(key, size, "%.*s", (int)strcspn(word, "["), word);
}

int kv_config_refuse(struct kv_tree *tree, const char *path, const char *format, ...)
{
	char message[KV_CONFIG_ERROR_LEN], key[RULE_KEY_LEN];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	kv_config_key(path, key, sizeof(key));
	for (size_t i = 0; !tree->loaded && i < sizeof(options) / sizeof(*options); i++)
		if (!strcmp(options[i].key, key))
			path = options[i].option;
	return kv_tree_refuse(tree, path, "%s", message);
}

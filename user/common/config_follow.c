// SPDX-License-Identifier: BSD-2-Clause
#include "common/config_follow.h"

#include <stdio.h>
#include <string.h>

#include "common/config_reader.h"
#include "common/config_values.h"

#define HEALTH_PATH "/health"

/* A key with a number: where its text is, where its value goes, and its default. */
struct number {
	const char *key;
	size_t raw;
	size_t at;
	char *(*format)(__u64 value, char *buf);
	__u64 otherwise;
};

#define NUMBER(group, name, format, otherwise)                                                     \
	{                                                                                          \
#group "." #name, offsetof(struct kv_raw_##group, name),                           \
			offsetof(struct kv_config, group.name), format, otherwise                  \
	}
#define DURATION(group, name, ms) NUMBER(group, name, kv_format_duration, ms)
#define NUMBER_OF(group, name, n) NUMBER(group, name, kv_format_count, n)

static const struct number follow[] = {
	DURATION(follow, health, 2000),		 DURATION(follow, models, 30000),
	DURATION(follow, metrics, 1000),	 DURATION(follow, health_timeout, 2000),
	DURATION(follow, metrics_timeout, 1000), DURATION(follow, stale, 5000),
};

static const struct number health[] = {
	NUMBER_OF(health, fall, 3),
	NUMBER_OF(health, eject_percent, 50),
	NUMBER_OF(health, eject_least, 5),
	NUMBER_OF(health, eject_share, 50),
	DURATION(health, eject_time, 5000),
	DURATION(health, slow_start, 30000),
	NUMBER_OF(health, trial_successes, 3),
};

#define N(rows) (sizeof(rows) / sizeof(*(rows)))

static __u64 *value_at(struct kv_config *config, const struct number *n)
{
	return (__u64 *)((char *)config + n->at);
}

static __u64 value_of(const struct kv_config *config, const struct number *n)
{
	return *(const __u64 *)((const char *)config + n->at);
}

/* raw: NULL, or the group's structure, which is all pointers to text. */
static int read_numbers(struct reader *r, const char *scope, const void *raw,
			const struct number *rows, size_t n, struct kv_config *config)
{
	int err = 0;

	strcpy(r->scope, scope);
	for (size_t i = 0; i < n && !err; i++) {
		*value_at(config, &rows[i]) = rows[i].otherwise;
		if (raw)
			err = config_read_number(r, strchr(rows[i].key, '.') + 1,
						 *(char *const *)((const char *)raw + rows[i].raw),
						 value_at(config, &rows[i]));
	}
	return err;
}

bool config_path_ok(const char *path, size_t size)
{
	if (path[0] != '/' || strlen(path) >= size)
		return false;
	for (; *path; path++)
		if (*path <= ' ' || *path >= 0x7f || *path == '#')
			return false;
	return true;
}

int config_read_follow(struct reader *r, const struct kv_raw_config *raw, struct kv_config *config)
{
	const char *path = raw->follow ? raw->follow->health_path : NULL;
	int err;

	strcpy(r->scope, "");
	if (raw->http && kv_addr_parse(raw->http, &config->http))
		return config_bad_value(r, "http", raw->http);
	err = read_numbers(r, "follow", raw->follow, follow, N(follow), config);
	if (err)
		return err;
	if (path && !config_path_ok(path, KV_CONFIG_HEALTH_PATH_LEN))
		return config_bad_value(r, "health_path", path);
	strcpy(config->follow.health_path, path ? path : HEALTH_PATH);
	return read_numbers(r, "health", raw->health, health, N(health), config);
}

static const char *http_text(const struct kv_config *config, char *buf)
{
	return config->http.port ? kv_addr_format(&config->http, buf, KV_ADDR_TEXT) : "none";
}

void kv_config_diff_follow(const struct kv_config *old, const struct kv_config *new,
			   void (*differs)(void *arg, const char *key, const char *old,
					   const char *new),
			   void *arg)
{
	char a[KV_ADDR_TEXT + KV_VALUE_TEXT], b[sizeof(a)];
	const struct number *rows[] = {follow, health};
	const size_t n[] = {N(follow), N(health)};

	if (!kv_addr_equal(&old->http, &new->http))
		differs(arg, "http", http_text(old, a), http_text(new, b));
	if (strcmp(old->follow.health_path, new->follow.health_path))
		differs(arg, "follow.health_path", old->follow.health_path,
			new->follow.health_path);
	for (size_t k = 0; k < N(rows); k++)
		for (size_t i = 0; i < n[k]; i++)
			if (value_of(old, &rows[k][i]) != value_of(new, &rows[k][i]))
				differs(arg, rows[k][i].key,
					rows[k][i].format(value_of(old, &rows[k][i]), a),
					rows[k][i].format(value_of(new, &rows[k][i]), b));
}

bool kv_config_follow_differs(const struct kv_config *old, const struct kv_config *new)
{
	return memcmp(&old->follow, &new->follow, sizeof(old->follow)) ||
	       memcmp(&old->health, &new->health, sizeof(old->health)) ||
	       !kv_addr_equal(&old->http, &new->http);
}

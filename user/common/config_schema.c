// SPDX-License-Identifier: BSD-2-Clause
#include "common/config_schema.h"

#include <stdint.h>

#include "common/config.h"
#include "common/config_discover.h"

#define OPTIONAL (CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL)
#define TEXT(type, key, flags) CYAML_FIELD_STRING_PTR(#key, flags, type, key, 0, CYAML_UNLIMITED)
#define LIST(type, key, flags, entry, min, max)                                                    \
	CYAML_FIELD_SEQUENCE(#key, flags, type, key, entry, min, max)
#define BELOW(type, key, fields) CYAML_FIELD_MAPPING_PTR(#key, OPTIONAL, type, key, fields)

static const cyaml_schema_value_t text_entry = {
	CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *, 0, CYAML_UNLIMITED),
};

static const cyaml_schema_field_t backend_fields[] = {
	TEXT(struct kv_raw_backend, name, OPTIONAL),
	TEXT(struct kv_raw_backend, address, CYAML_FLAG_POINTER),
	TEXT(struct kv_raw_backend, capacity, OPTIONAL),
	TEXT(struct kv_raw_backend, rate, OPTIONAL),
	TEXT(struct kv_raw_backend, events_port, OPTIONAL),
	TEXT(struct kv_raw_backend, replay_port, OPTIONAL),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t backend_entry = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct kv_raw_backend, backend_fields),
};

static const cyaml_schema_field_t weight_fields[] = {
	TEXT(struct kv_raw_weights, cpu, OPTIONAL),
	TEXT(struct kv_raw_weights, disk, OPTIONAL),
	TEXT(struct kv_raw_weights, external, OPTIONAL),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t events_fields[] = {
	TEXT(struct kv_raw_events, model, OPTIONAL),
	TEXT(struct kv_raw_events, port, OPTIONAL),
	TEXT(struct kv_raw_events, replay_port, OPTIONAL),
	TEXT(struct kv_raw_events, bind, OPTIONAL),
	TEXT(struct kv_raw_events, poll, OPTIONAL),
	TEXT(struct kv_raw_events, topic, OPTIONAL),
	TEXT(struct kv_raw_events, ranks, OPTIONAL),
	TEXT(struct kv_raw_events, first, OPTIONAL),
	TEXT(struct kv_raw_events, block, OPTIONAL),
	TEXT(struct kv_raw_events, lora, OPTIONAL),
	BELOW(struct kv_raw_events, weights, weight_fields),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t discover_fields[] = {
	TEXT(struct kv_raw_discover, dns, CYAML_FLAG_POINTER),
	TEXT(struct kv_raw_discover, port, OPTIONAL),
	TEXT(struct kv_raw_discover, srv, OPTIONAL),
	LIST(struct kv_raw_discover, servers, OPTIONAL, &text_entry, 1, KV_CONFIG_DNS_SERVERS),
	TEXT(struct kv_raw_discover, min_ttl, OPTIONAL),
	TEXT(struct kv_raw_discover, max_ttl, OPTIONAL),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t service_fields[] = {
	TEXT(struct kv_raw_service, name, CYAML_FLAG_POINTER),
	LIST(struct kv_raw_service, listen, CYAML_FLAG_POINTER, &text_entry, 1, KV_CONFIG_LISTENS),
	TEXT(struct kv_raw_service, policy, OPTIONAL),
	TEXT(struct kv_raw_service, floor, OPTIONAL),
	TEXT(struct kv_raw_service, affinity, OPTIONAL),
	TEXT(struct kv_raw_service, body_limit, OPTIONAL),
	TEXT(struct kv_raw_service, answer_header, OPTIONAL),
	TEXT(struct kv_raw_service, capacity, OPTIONAL),
	TEXT(struct kv_raw_service, rate, OPTIONAL),
	BELOW(struct kv_raw_service, events, events_fields),
	BELOW(struct kv_raw_service, discover, discover_fields),
	LIST(struct kv_raw_service, backends, OPTIONAL, &backend_entry, 0, KV_MAX_BACKENDS),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t service_entry = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct kv_raw_service, service_fields),
};

static const cyaml_schema_field_t timeout_fields[] = {
	TEXT(struct kv_raw_timeouts, client_idle, OPTIONAL),
	TEXT(struct kv_raw_timeouts, request, OPTIONAL),
	TEXT(struct kv_raw_timeouts, response, OPTIONAL),
	TEXT(struct kv_raw_timeouts, probe, OPTIONAL),
	TEXT(struct kv_raw_timeouts, drain, OPTIONAL),
	TEXT(struct kv_raw_timeouts, connect, OPTIONAL),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t limit_fields[] = {
	TEXT(struct kv_raw_limits, body, OPTIONAL),
	TEXT(struct kv_raw_limits, memory, OPTIONAL),
	TEXT(struct kv_raw_limits, clients, OPTIONAL),
	TEXT(struct kv_raw_limits, events, OPTIONAL),
	TEXT(struct kv_raw_limits, clients_per_address, OPTIONAL),
	TEXT(struct kv_raw_limits, memory_per_address, OPTIONAL),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t trace_fields[] = {
	TEXT(struct kv_raw_trace, requests, OPTIONAL),
	TEXT(struct kv_raw_trace, sample, OPTIONAL),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t tenancy_fields[] = {
	TEXT(struct kv_raw_tenancy, header, CYAML_FLAG_POINTER),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t follow_fields[] = {
	TEXT(struct kv_raw_follow, health_path, OPTIONAL),
	TEXT(struct kv_raw_follow, health, OPTIONAL),
	TEXT(struct kv_raw_follow, models, OPTIONAL),
	TEXT(struct kv_raw_follow, metrics, OPTIONAL),
	TEXT(struct kv_raw_follow, health_timeout, OPTIONAL),
	TEXT(struct kv_raw_follow, metrics_timeout, OPTIONAL),
	TEXT(struct kv_raw_follow, stale, OPTIONAL),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t health_fields[] = {
	TEXT(struct kv_raw_health, fall, OPTIONAL),
	TEXT(struct kv_raw_health, eject_percent, OPTIONAL),
	TEXT(struct kv_raw_health, eject_least, OPTIONAL),
	TEXT(struct kv_raw_health, eject_share, OPTIONAL),
	TEXT(struct kv_raw_health, eject_time, OPTIONAL),
	TEXT(struct kv_raw_health, slow_start, OPTIONAL),
	TEXT(struct kv_raw_health, trial_successes, OPTIONAL),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t config_fields[] = {
	TEXT(struct kv_raw_config, pin, OPTIONAL),
	TEXT(struct kv_raw_config, control, OPTIONAL),
	LIST(struct kv_raw_config, interfaces, OPTIONAL, &text_entry, 0, KV_CONFIG_INTERFACES),
	LIST(struct kv_raw_config, session_headers, OPTIONAL, &text_entry, 0,
	     KV_CONFIG_SESSION_HEADERS),
	TEXT(struct kv_raw_config, user, OPTIONAL),
	BELOW(struct kv_raw_config, tenancy, tenancy_fields),
	TEXT(struct kv_raw_config, max_backends, OPTIONAL),
	TEXT(struct kv_raw_config, upstreams_per_backend, OPTIONAL),
	TEXT(struct kv_raw_config, max_clients, OPTIONAL),
	TEXT(struct kv_raw_config, max_prefixes, OPTIONAL),
	TEXT(struct kv_raw_config, max_sessions, OPTIONAL),
	BELOW(struct kv_raw_config, timeouts, timeout_fields),
	BELOW(struct kv_raw_config, limits, limit_fields),
	BELOW(struct kv_raw_config, trace, trace_fields),
	TEXT(struct kv_raw_config, watch, OPTIONAL),
	TEXT(struct kv_raw_config, http, OPTIONAL),
	BELOW(struct kv_raw_config, follow, follow_fields),
	BELOW(struct kv_raw_config, health, health_fields),
	LIST(struct kv_raw_config, services, CYAML_FLAG_POINTER, &service_entry, 1,
	     KV_MAX_SERVICES),
	CYAML_FIELD_END,
};

const cyaml_schema_value_t kv_raw_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct kv_raw_config, config_fields),
};

/* No log: kv_tree_check has already said everything that could go wrong. */
const cyaml_config_t kv_raw_cyaml = {
	.mem_fn = cyaml_mem,
	.flags = CYAML_CFG_NO_ALIAS,
};

/* SPDX-License-Identifier: BSD-2-Clause */
/* The shape of the file, as libcyaml loads it: every single value as text, converted by config.c.
 */
#ifndef KVSTEER_CONFIG_SCHEMA_H
#define KVSTEER_CONFIG_SCHEMA_H

#include <cyaml/cyaml.h>

/* A missing value is NULL, a missing list has a count of 0. */
struct kv_raw_backend {
	char *name;
	char *address;
	char *capacity;
	char *rate;
	char *events_port;
	char *replay_port;
};

struct kv_raw_weights {
	char *cpu;
	char *disk;
	char *external;
};

struct kv_raw_events {
	char *model;
	char *port;
	char *replay_port;
	char *bind;
	char *poll;
	char *topic;
	char *ranks;
	char *first;
	char *block;
	char *lora;
	struct kv_raw_weights *weights;
};

struct kv_raw_discover {
	char *dns;
	char *port;
	char *srv;
	char **servers;
	unsigned int servers_count;
	char *min_ttl;
	char *max_ttl;
};

struct kv_raw_service {
	char *name;
	char **listen;
	unsigned int listen_count;
	char *policy;
	char *floor;
	char *affinity;
	char *body_limit;
	char *answer_header;
	char *capacity;
	char *rate;
	struct kv_raw_events *events;
	struct kv_raw_discover *discover;
	struct kv_raw_backend *backends;
	unsigned int backends_count;
};

struct kv_raw_timeouts {
	char *client_idle;
	char *request;
	char *response;
	char *probe;
	char *drain;
	char *connect;
};

struct kv_raw_tenancy {
	char *header;
};

struct kv_raw_limits {
	char *body;
	char *memory;
	char *clients;
	char *events;
	char *clients_per_address;
	char *memory_per_address;
};

struct kv_raw_trace {
	char *requests;
	char *sample;
};

struct kv_raw_follow {
	char *health_path;
	char *health;
	char *models;
	char *metrics;
	char *health_timeout;
	char *metrics_timeout;
	char *stale;
};

struct kv_raw_health {
	char *fall;
	char *eject_percent;
	char *eject_least;
	char *eject_share;
	char *eject_time;
	char *slow_start;
	char *trial_successes;
};

struct kv_raw_config {
	char *pin;
	char *control;
	char **interfaces;
	unsigned int interfaces_count;
	char **session_headers;
	unsigned int session_headers_count;
	char *user;
	struct kv_raw_tenancy *tenancy;
	char *max_backends;
	char *upstreams_per_backend;
	char *max_clients;
	char *max_prefixes;
	char *max_sessions;
	struct kv_raw_timeouts *timeouts;
	struct kv_raw_limits *limits;
	struct kv_raw_trace *trace;
	char *watch;
	char *http;
	struct kv_raw_follow *follow;
	struct kv_raw_health *health;
	struct kv_raw_service *services;
	unsigned int services_count;
};

extern const cyaml_schema_value_t kv_raw_schema;
extern const cyaml_config_t kv_raw_cyaml;

#endif

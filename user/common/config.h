/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration: one YAML file, kvsteer.yaml(5), or the few options of the no-file form.
 *
 * A file is read whole or refused whole. What is refused is told in one line:
 * FILE:LINE: KEY: what is wrong, what was expected.
 */
#ifndef KVSTEER_CONFIG_H
#define KVSTEER_CONFIG_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

#include <kvsteer/fields.h>
#include <kvsteer/shared.h>

#include "common/addr.h"
#include "common/config_follow.h"

#define KV_DEFAULT_PIN "/sys/fs/bpf/kvsteer"
#define KV_DEFAULT_CONTROL "/run/kvsteer/kvsteer.sock"
#define KV_DEFAULT_CAPACITY 262144 /* tokens */
#define KV_DEFAULT_RATE 16000	   /* tokens per second */
#define KV_CONFIG_LISTENS 8	   /* as kv_service.listen */
#define KV_CONFIG_INTERFACES 32
#define KV_CONFIG_SESSION_HEADERS KV_NAMES_MAX
#define KV_CONFIG_HEADER_LEN (KV_FIELD_NAME_MAX + 1)
#define KV_CONFIG_USER_LEN 32
#define KV_CONFIG_PATH_LEN 256
#define KV_CONFIG_ERROR_LEN 512 /* room for any message */

struct kv_config_backend {
	char name[KV_NAME_LEN]; /* unique in the instance; the address as text if not named */
	struct kv_addr address; /* unique in its service */
	__u64 capacity;		/* tokens; 0: as the engine says, KV_DEFAULT_CAPACITY until then */
	__u64 rate;		/* prefill tokens per second; 0: learned */
	__u16 events_port;	/* in place of the service's; 0: that one */
	__u16 replay_port;
	__u32 origin; /* enum kv_origin */
};

struct kv_config_service {
	char name[KV_NAME_LEN];
	struct kv_addr listen[KV_CONFIG_LISTENS];
	__u32 n_listen;
	enum kv_policy policy;
	__u32 floor; /* tokens */
	enum kv_affinity affinity;
	__u64 body_limit;   /* bytes */
	bool answer_header; /* answers of the agent lane name backend and match */
	struct kv_service_events events;
	struct kv_service_discover discover;
	struct kv_config_backend *backends;
	__u32 n_backends;
};

struct kv_config {
	char pin[KV_CONFIG_PATH_LEN];
	char control[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char interfaces[KV_CONFIG_INTERFACES][IFNAMSIZ]; /* none: found from routes */
	__u32 n_interfaces;
	char session_headers[KV_CONFIG_SESSION_HEADERS][KV_CONFIG_HEADER_LEN]; /* lower case */
	__u32 n_session_headers;
	char user[KV_CONFIG_USER_LEN]; /* whom the agent becomes after start; empty: stays */
	char tenant_header[KV_CONFIG_HEADER_LEN]; /* lower case; empty: no tenancy */
	__u32 max_backends;
	__u32 upstreams_per_backend; /* multiple of 64 */
	__u32 max_clients;
	__u32 max_prefixes;
	__u32 max_sessions;
	struct {
		__u64 client_idle_ms; /* client connection without a request */
		__u64 request_ms;     /* a request's head, and each further part of its body */
		__u64 response_ms;    /* no further byte of a response, nor its first */
		__u64 probe_ms;	      /* a peer that says nothing is asked; 0: it is not */
		__u64 drain_ms;	      /* running streams after SIGTERM */
		__u64 connect_ms;     /* upstream connection */
	} timeouts;
	struct {
		__u64 body;    /* bytes: a service's body_limit where it names none */
		__u64 memory;  /* bytes of requests and responses held by the agent, all together */
		__u32 clients; /* client connections at a time */
		__u64 events;  /* bytes of what is known of engines' caches */
		/* of one client address (IPv6: of one /64); 0: no such limit */
		__u32 clients_per_address;
		__u64 memory_per_address;
	} limits;
	struct {
		__u32 requests; /* that are remembered, a power of two; 0: none */
		__u32 sample;	/* one request in so many; 0: none */
	} trace;
	bool watch;	     /* the file is applied whenever it is another one */
	struct kv_addr http; /* of the agent's own pages; port 0: none */
	struct kv_config_follow follow;
	struct kv_config_health health;
	struct kv_config_service *services;
	__u32 n_services;
};

/* 0, or -errno with one line in err: -EINVAL for what the text says, else the error of
 * reading it. *ret is set on success only; to be freed with kv_config_free. */
int kv_config_load(const char *path, struct kv_config **ret, char *err, size_t errlen);
/* name: what messages call the text. */
int kv_config_load_text(const char *name, const char *text, size_t len, struct kv_config **ret,
			char *err, size_t errlen);

/* The no-file form: one service "default". What is NULL or empty takes its default. */
struct kv_config_options {
	const char *const *listens;
	size_t n_listens;
	const char *const *backends;
	size_t n_backends;
	const char *const *interfaces;
	size_t n_interfaces;
	const char *policy;
	const char *pin;
	const char *control;
};
int kv_config_from_options(const struct kv_config_options *o, struct kv_config **ret, char *err,
			   size_t errlen);

void kv_config_free(struct kv_config *config);
static inline void kv_config_cleanup(struct kv_config **config)
{
	kv_config_free(*config);
}
#define _cleanup_config_ __attribute__((cleanup(kv_config_cleanup)))

/* NULL if there is none of that name. */
const struct kv_config_service *kv_config_service(const struct kv_config *config, const char *name);

const char *kv_policy_name(enum kv_policy policy);
/* -EINVAL if no policy is called so. */
int kv_policy_parse(const char *name, enum kv_policy *ret);
const char *kv_affinity_name(enum kv_affinity affinity);
int kv_affinity_parse(const char *name, enum kv_affinity *ret);
/* "price, sticky, …": for messages. */
const char *kv_policy_names(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Configurations as tests write them. */
#ifndef UNIT_CONFIGS_H
#define UNIT_CONFIGS_H

#include <errno.h>
#include <string.h>

#include "check.h"
#include "common/config.h"

#define SERVICE "services:\n- name: a\n  listen: [\":80\"]\n"
#define POLICIES "one of price, sticky, ttft, p2c, least, hash, round-robin"
#define ADDRESS "IPV4:PORT or [IPV6]:PORT"

/* Every key. */
__attribute__((unused)) static const char full[] =
	"pin: /sys/fs/bpf/x\n"
	"control: /run/x.sock\n"
	"interfaces: [eth0, lo]\n"
	"session_headers: [X-Chat]\n"
	"user: kvsteer\n"
	"tenancy: {header: X-Tenant}\n"
	"max_backends: 8\n"
	"upstreams_per_backend: 128\n"
	"max_clients: 1000\n"
	"max_prefixes: 2048\n"
	"max_sessions: 64\n"
	"timeouts: {client_idle: 1min, request: 7s, response: 2h, probe: 0s,\n"
	"  drain: 0s, connect: 250ms}\n"
	"limits: {body: 1MiB, memory: 2GB, clients: 10, clients_per_address: 5,\n"
	"  memory_per_address: 1MiB}\n"
	"trace: {requests: 64, sample: 10}\n"
	"http: 127.0.0.1:9090\n"
	"follow: {health_path: /ping, health: 0s, models: 1min, metrics: 500ms,\n"
	"  health_timeout: 1s, metrics_timeout: 10ms, stale: 3s}\n"
	"health: {fall: 1, eject_percent: 20, eject_least: 2, eject_share: 0, eject_time: 1s,\n"
	"  slow_start: 0s, trial_successes: 9}\n"
	"services:\n"
	"- name: chat\n"
	"  listen: [\"0.0.0.0:8080\", \"[fd00::1]:8081\"]\n"
	"  policy: round-robin\n"
	"  floor: 512\n"
	"  affinity: full\n"
	"  body_limit: 2000\n"
	"  answer_header: true\n"
	"  capacity: 1000\n"
	"  rate: 500\n"
	"  events: {model: m, port: 5557, replay_port: 5558, topic: kv@, ranks: 2, first: 1,\n"
	"    block: 32, lora: field, weights: {cpu: 75, external: 1}}\n"
	"  discover: {dns: _llm._tcp.x-1.test., srv: true, servers: [10.0.0.53:53, "
	"\"[fd00::53]:5353\"],\n"
	"    min_ttl: 200ms, max_ttl: 1h}\n"
	"  backends:\n"
	"  - {name: e1, address: 10.0.0.1:8000, capacity: 8192x16, rate: 7, events_port: 9}\n"
	"  - {address: \"[fd00::2]:8000\", rate: learned}\n"
	"- name: second\n"
	"  listen: [127.0.0.1:9000]\n"
	"  events: {bind: \"[fd00::1]:5557\"}\n"
	"  discover: {dns: llm.test, port: 8000, srv: false, min_ttl: 10min}\n"
	"- name: third\n"
	"  listen: [127.0.0.1:9001]\n"
	"  events: {poll: /kv_cache_events, ranks: 2}\n";

/* NULL: it is refused, and why has been said. */
static inline struct kv_config *load(const char *text)
{
	char err[KV_CONFIG_ERROR_LEN] = "";
	struct kv_config *config = NULL;

	if (kv_config_load_text("f", text, strlen(text), &config, err, sizeof(err)))
		printf("# %s\n", err);
	return config;
}

#endif

// SPDX-License-Identifier: BSD-2-Clause
/* The configuration: what is refused and how it is told, what is taken, what differs. */
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/config.h"
#include "common/config_diff.h"
#include "common/config_values.h"

#define SERVICE "services:\n- name: a\n  listen: [\":80\"]\n"
#define POLICIES "one of price, sticky, ttft, p2c, least, hash, round-robin"
#define TOP_KEYS                                                                                   \
	"pin, control, interfaces, session_headers, user, tenancy, max_backends, "                 \
	"upstreams_per_backend, max_clients, max_prefixes, max_sessions, timeouts, limits, "       \
	"trace, watch, http, follow, health, services"
#define ADDRESS "IPV4:PORT or [IPV6]:PORT"
#define USER(found)                                                                                \
	"f:4: user: found " found                                                                  \
	": expected the name of a user of this host, up to 31 letters, digits, - and _"
#define TENANT                                                                                     \
	"a header name, up to 31 bytes, that is no session header and has no meaning in HTTP/1.1 " \
	"framing"
#define DISCOVER "dns, port, srv, servers, min_ttl, max_ttl"
#define DNS                                                                                        \
	"a DNS name, whole, up to 253 bytes of letters, digits, -, _ and dots; addresses belong "  \
	"into backends"
#define EITHER                                                                                     \
	"expected either port (of the addresses that the name has) or srv: true (SRV records "     \
	"have "                                                                                    \
	"ports)"
#define NAME "1 to 63 letters, digits and -._:[]"

static const struct {
	const char *text;
	const char *message;
} bad[] = {
	/* not YAML, or not one document */
	{"", "f: empty: expected at least \"services\""},
	{"# only a comment\n", "f: empty: expected at least \"services\""},
	{"services: [", "f:2: not YAML: did not find expected node content, while parsing a flow "
			"node"},
	{"a: b: c\n", "f:1: not YAML: mapping values are not allowed in this context"},
	{"pin: /a\n\tcontrol: /b\n", "f:2: not YAML: found a tab character that violates "
				     "indentation, while scanning a plain scalar"},
	{"a\x80", "f: not YAML: invalid leading UTF-8 octet at byte 1"},
	{SERVICE "---\n" SERVICE, "f:4: a second document begins: expected one"},
	{"services: &x [*x]\n", "f:1: services[0]: anchors and aliases are not used in this file: "
				"expected the value itself in each place"},
	/* shape */
	{"services\n", "f:1: found \"services\": expected keys and values: " TOP_KEYS},
	{"- services\n", "f:1: found a list: expected keys and values: " TOP_KEYS},
	{"pin: /a\n", "f:1: key \"services\" is missing: expected a list of services"},
	{"services: x\n", "f:1: services: found \"x\": expected a list"},
	{"services:\n", "f:1: services: found nothing: expected a list"},
	{"services: []\n", "f:1: services: a list of 0: expected 1 to 16 entries"},
	{"services: [x]\n",
	 "f:1: services[0]: found \"x\": expected keys and values: name, listen, "
	 "policy, floor, affinity, body_limit, answer_header, capacity, rate, events, discover, "
	 "backends"},
	{SERVICE "polices: 1\n", "f:4: unknown key \"polices\": expected one of " TOP_KEYS},
	{SERVICE "  polici: 1\n", "f:4: services[0]: unknown key \"polici\": expected one of name, "
				  "listen, policy, floor, affinity, body_limit, answer_header, "
				  "capacity, rate, events, discover, backends"},
	{SERVICE "  policy: least\n  policy: hash\n",
	 "f:5: services[0].policy: key given twice: expected it once"},
	{SERVICE "? [x]\n: 1\n", "f:4: a key that is not a word: expected one of " TOP_KEYS},
	{SERVICE "timeouts: 5s\n", "f:4: timeouts: found \"5s\": expected keys and values: "
				   "client_idle, request, response, probe, drain, connect"},
	{SERVICE "limits: [1]\n",
	 "f:4: limits: found a list: expected keys and values: body, "
	 "memory, clients, events, clients_per_address, memory_per_address"},
	{"services:\n- listen: [\":80\"]\n",
	 "f:2: services[0]: key \"name\" is missing: expected " NAME},
	{"services:\n- name: a\n", "f:2: services[0]: key \"listen\" is missing: expected " ADDRESS
				   ", or *:PORT for any address"},
	{"services:\n- name: a\n  listen: []\n",
	 "f:3: services[0].listen: a list of 0: expected 1 to 8 entries"},
	{SERVICE "  backends: [{name: b}]\n",
	 "f:4: services[0].backends[0]: key \"address\" is missing: expected " ADDRESS},
	{SERVICE "  affinity: on\n",
	 "f:4: services[0].affinity: found \"on\": expected auto, full or off"},
	{SERVICE "  floor: {}\n",
	 "f:4: services[0].floor: found a mapping: expected tokens, from 0 to 16777216"},
	{SERVICE "pin: \"/a\\0b\"\n", "f:4: pin: a NUL byte in it: expected an absolute path on a "
				      "bpf file system, up to 255 bytes"},
	/* discover */
	{SERVICE "  discover: llm.test\n",
	 "f:4: services[0].discover: found \"llm.test\": expected keys and values: " DISCOVER},
	{SERVICE "  discover: {port: 80}\n",
	 "f:4: services[0].discover: key \"dns\" is missing: expected " DNS},
	{SERVICE "  discover: {dns: 10.0.0.1, port: 80}\n",
	 "f:4: services[0].discover.dns: found \"10.0.0.1\": expected " DNS},
	{SERVICE "  discover: {dns: a..b, port: 80}\n",
	 "f:4: services[0].discover.dns: found \"a..b\": expected " DNS},
	{SERVICE "  discover: {dns: \"\", port: 80}\n",
	 "f:4: services[0].discover.dns: found nothing: expected " DNS},
	{SERVICE "  discover: {dns: a.b:80, port: 80}\n",
	 "f:4: services[0].discover.dns: found \"a.b:80\": expected " DNS},
	{SERVICE "  discover: {dns: a.b}\n", "f:4: services[0].discover: " EITHER},
	{SERVICE "  discover: {dns: a.b, srv: true, port: 80}\n",
	 "f:4: services[0].discover: " EITHER},
	{SERVICE "  discover: {dns: a.b, srv: false}\n", "f:4: services[0].discover: " EITHER},
	{SERVICE "  discover: {dns: a.b, srv: 1}\n",
	 "f:4: services[0].discover.srv: found \"1\": expected true or false"},
	{SERVICE "  discover: {dns: a.b, port: 0}\n",
	 "f:4: services[0].discover.port: found \"0\": expected a port from 1 to 65535"},
	{SERVICE "  discover:\n    dns: a.b\n    port: 80\n    servers: [10.0.0.1:53, \":53\"]\n",
	 "f:7: services[0].discover.servers[1]: found \":53\": expected " ADDRESS},
	{SERVICE "  discover: {dns: a.b, port: 80, servers: []}\n",
	 "f:4: services[0].discover.servers: a list of 0: expected 1 to 4 entries"},
	{SERVICE "  discover: {dns: a.b, port: 80, min_ttl: 0s}\n",
	 "f:4: services[0].discover.min_ttl: found \"0s\": expected a time with its unit from "
	 "100ms to 24h"},
	{SERVICE "  discover: {dns: a.b, port: 80, min_ttl: 2s, max_ttl: 1s}\n",
	 "f:4: services[0].discover.max_ttl: less than min_ttl: expected at least that"},
	{SERVICE "  discover: {dns: a.b, port: 80}\n- name: b\n  listen: [\":81\"]\n  discover: "
		 "{dns: A.b, port: 80}\n",
	 "f:7: services[1].discover.dns: \"A.b\" is also that of services[0] (\"a\"): expected "
	 "each engine in one service"},
	{SERVICE "watch: yes\n", "f:4: watch: found \"yes\": expected true or false"},
	/* values */
	{SERVICE "pin: here\n", "f:4: pin: found \"here\": expected an absolute path on a bpf file "
				"system, up to 255 bytes"},
	{SERVICE "pin:\n",
	 "f:4: pin: found nothing: expected an absolute path on a bpf file system, up to 255 "
	 "bytes"},
	{SERVICE "control: ./sock\n",
	 "f:4: control: found \"./sock\": expected an absolute path, up to 107 bytes"},
	{SERVICE "interfaces: [eth0, \"a name too long\\e for one\"]\n",
	 "f:4: interfaces[1]: found \"a name too long? for one\": expected a name of an interface, "
	 "up to 15 bytes"},
	{SERVICE "interfaces: [eth0, eth1, eth0]\n",
	 "f:4: interfaces[2]: \"eth0\" is given twice: expected it once"},
	{SERVICE "session_headers:\n- x-a\n- x:b\n",
	 "f:6: session_headers[1]: found \"x:b\": expected a header name, up to 31 bytes, that has "
	 "no meaning in HTTP/1.1 framing"},
	{SERVICE "session_headers: [Host]\n", "f:4: session_headers[0]: found \"Host\": expected a "
					      "header name, up to 31 bytes, that has "
					      "no meaning in HTTP/1.1 framing"},
	{SERVICE "session_headers: [x-a, X-A]\n",
	 "f:4: session_headers[1]: \"x-a\" is given twice: expected it once"},
	{SERVICE "user: \"\"\n", USER("nothing")},
	{SERVICE "user: -x\n", USER("\"-x\"")},
	{SERVICE "user: 'a b'\n", USER("\"a b\"")},
	{SERVICE "user: abcdefghijklmnopqrstuvwxyz012345\n",
	 USER("\"abcdefghijklmnopqrstuvwxyz012345\"")},
	{SERVICE "tenancy: x\n", "f:4: tenancy: found \"x\": expected keys and values: header"},
	{SERVICE "tenancy: {}\n", "f:4: tenancy: key \"header\" is missing: expected " TENANT},
	{SERVICE "tenancy: {header: Connection}\n",
	 "f:4: tenancy.header: found \"Connection\": expected " TENANT},
	{SERVICE "tenancy: {header: x y}\n",
	 "f:4: tenancy.header: found \"x y\": expected " TENANT},
	{SERVICE "tenancy: {header: Session-Id}\n",
	 "f:4: tenancy.header: found \"Session-Id\": expected " TENANT},
	{SERVICE "session_headers: [x-a]\ntenancy: {header: X-A}\n",
	 "f:5: tenancy.header: found \"X-A\": expected " TENANT},
	{SERVICE "max_backends: 257\n",
	 "f:4: max_backends: found \"257\": expected a whole number from 1 to 256"},
	{SERVICE "max_backends: -1\n",
	 "f:4: max_backends: found \"-1\": expected a whole number from 1 to 256"},
	{SERVICE "max_clients: 1.5\n",
	 "f:4: max_clients: found \"1.5\": expected a whole number from 64 to 4194304"},
	{SERVICE "max_prefixes: 99999999999999999999\n",
	 "f:4: max_prefixes: found \"99999999999999999999\": expected a whole number from 1024 to "
	 "67108864"},
	{SERVICE "upstreams_per_backend: 100\n",
	 "f:4: upstreams_per_backend: found \"100\": expected a multiple of 64 from 64 to 1024"},
	{SERVICE "timeouts:\n  drain: 5\n",
	 "f:5: timeouts.drain: found \"5\": expected a time with its unit from 0s to 24h"},
	{SERVICE "timeouts:\n  connect: 2h\n",
	 "f:5: timeouts.connect: found \"2h\": expected a time with its unit from 10ms to 1min"},
	{SERVICE "limits: {body: 64MB, memory: lots}\n",
	 "f:4: limits.memory: found \"lots\": expected a size from 16MiB to 1024GiB"},
	{SERVICE "limits: {body: 1GiB, memory: 16MiB}\n",
	 "f:4: limits.memory: less than limits.body: expected room for one body"},
	{SERVICE "limits: {memory_per_address: 63MiB}\n",
	 "f:4: limits.memory_per_address: less than limits.body: expected room for one body, or 0"},
	{SERVICE "limits: {clients_per_address: none}\n",
	 "f:4: limits.clients_per_address: found \"none\": expected a whole number to 4194304; 0: "
	 "no "
	 "limit"},
	{SERVICE "timeouts: {probe: 2d}\n",
	 "f:4: timeouts.probe: found \"2d\": expected a time with its unit from 0s (off) to 24h"},
	{SERVICE "timeouts: {request: 0s}\n",
	 "f:4: timeouts.request: found \"0s\": expected a time with its unit from 1s to 24h"},
	{SERVICE "max_clients: 64\nlimits:\n  clients: 65\n",
	 "f:6: limits.clients: 65 is more than max_clients (64): expected at most that"},
	{"services:\n- name: \"a b\"\n  listen: [\":80\"]\n",
	 "f:2: services[0].name: found \"a b\": expected " NAME},
	{"services:\n- name: -a\n  listen: [\":80\"]\n",
	 "f:2: services[0].name: found \"-a\": expected " NAME},
	{"services:\n- name: a\n  listen: [\":80\", \"localhost:80\"]\n",
	 "f:3: services[0].listen[1]: found \"localhost:80\": expected " ADDRESS
	 ", or *:PORT for any address"},
	{SERVICE "http: localhost:80\n",
	 "f:4: http: found \"localhost:80\": expected " ADDRESS ", or *:PORT for any address"},
	{SERVICE "http: 127.0.0.1:80\n",
	 "f:4: http: collides with an address of service \"a\": expected another address or port"},
	{SERVICE "follow: {health_path: health}\n",
	 "f:4: follow.health_path: found \"health\": expected a path that begins with /, up to 127 "
	 "characters without spaces and #"},
	{SERVICE "follow: {health_path: \"/a b\"}\n",
	 "f:4: follow.health_path: found \"/a b\": expected a path that begins with /, up to 127 "
	 "characters without spaces and #"},
	{SERVICE "follow: {health: 2}\n",
	 "f:4: follow.health: found \"2\": expected a time with its "
	 "unit from 0s (not asked) to 1h"},
	{SERVICE "follow: {stale: 1ms}\n",
	 "f:4: follow.stale: found \"1ms\": expected a time with its "
	 "unit from 100ms to 1h"},
	{SERVICE "follow: {metrics_timeout: 2min}\n",
	 "f:4: follow.metrics_timeout: found \"2min\": expected a time with its unit from 10ms to "
	 "1min"},
	{SERVICE "health: {fall: 0}\n",
	 "f:4: health.fall: found \"0\": expected a whole number from 1 to 100"},
	{SERVICE "health: {eject_share: 101}\n", "f:4: health.eject_share: found \"101\": expected "
						 "percent, a whole number from 0 (never) to 100"},
	{SERVICE "  policy: fast\n", "f:4: services[0].policy: found \"fast\": expected " POLICIES},
	{SERVICE "  answer_header: on\n",
	 "f:4: services[0].answer_header: found \"on\": expected true or false"},
	{SERVICE "  body_limit: 64mib\n",
	 "f:4: services[0].body_limit: found \"64mib\": expected a size from 1KiB to 1GiB"},
	{SERVICE "  backends:\n  - address: 10.0.0.1\n",
	 "f:5: services[0].backends[0].address: found \"10.0.0.1\": expected " ADDRESS},
	{SERVICE "  backends:\n  - address: 10.0.0.1:65536\n",
	 "f:5: services[0].backends[0].address: found \"10.0.0.1:65536\": expected " ADDRESS},
	{SERVICE "  backends:\n  - address: 10.0.0.256:80\n",
	 "f:5: services[0].backends[0].address: found \"10.0.0.256:80\": expected " ADDRESS},
	{SERVICE "  backends:\n  - address: \"*:80\"\n",
	 "f:5: services[0].backends[0].address: found \"*:80\": expected " ADDRESS},
	{SERVICE "  backends:\n  - address: 10.0.0.1:80\n    capacity: 8192x\n",
	 "f:6: services[0].backends[0].capacity: found \"8192x\": expected tokens, or BLOCKSxSIZE "
	 "as 8192x16, from 1 to 2^36 tokens in all"},
	{SERVICE "  backends:\n  - {address: 10.0.0.1:80, rate: 0}\n",
	 "f:5: services[0].backends[0].rate: found \"0\": expected tokens per second, from 1 to "
	 "1000000000, or \"learned\""},
	{SERVICE "  events: {ports: 1}\n", "f:4: services[0].events: unknown key \"ports\": "
					   "expected one of model, port, replay_port, "
					   "bind, poll, topic, ranks, first, block, lora, weights"},
	{SERVICE "  events: {}\n",
	 "f:4: services[0].events: expected one of port (engines publish there), bind "
	 "(engines connect to it) and poll (engines are asked)"},
	{SERVICE "  events: {poll: /x, bind: \"*:5557\"}\n",
	 "f:4: services[0].events: expected one of port (engines publish there), bind (engines "
	 "connect to it) and poll (engines are asked)"},
	{SERVICE "  events: {poll: x}\n",
	 "f:4: services[0].events.poll: found \"x\": expected a path that begins with /, up to 95 "
	 "characters without spaces and #"},
	{SERVICE "  events: {port: 5557, bind: \"*:5557\"}\n",
	 "f:4: services[0].events: expected one of port (engines publish there), bind (engines "
	 "connect to it) and poll (engines are asked)"},
	{SERVICE "  events: {port: 1, poll: /x}\n",
	 "f:4: services[0].events: expected one of port (engines publish there), bind (engines "
	 "connect to it) and poll (engines are asked)"},
	{SERVICE "  events: {bind: \"*:5557\", ranks: 2}\n",
	 "f:4: services[0].events.ranks: with bind all of an engine's ranks are one: expected 1"},
	{SERVICE "  events: {port: 65500, ranks: 64}\n",
	 "f:4: services[0].events.ranks: the last one's port would be 65563: expected at most "
	 "65535"},
	{SERVICE "  events: {port: 0}\n",
	 "f:4: services[0].events.port: found \"0\": expected a port from 1 to 65535"},
	{SERVICE "  events: {bind: here}\n",
	 "f:4: services[0].events.bind: found \"here\": expected " ADDRESS
	 ", or *:PORT for any address"},
	{SERVICE "  events: {port: 1, lora: id}\n",
	 "f:4: services[0].events.lora: found \"id\": expected model or field"},
	{SERVICE "  events:\n    port: 1\n    weights: {cpu: 101}\n",
	 "f:6: services[0].events.weights.cpu: found \"101\": expected percent, from 0 to 100"},
	{SERVICE "  backends:\n  - {address: 10.0.0.1:80, events_port: x}\n",
	 "f:5: services[0].backends[0].events_port: found \"x\": expected a port from 1 to 65535"},
	{SERVICE "limits: {events: 1MiB}\n",
	 "f:4: limits.events: found \"1MiB\": expected a size from 16MiB to 1024GiB"},
	/* one against another */
	{SERVICE "- name: a\n  listen: [\":81\"]\n",
	 "f:4: services[1].name: \"a\" is also the name of services[0]: expected a name of its "
	 "own"},
	{SERVICE "- name: b\n  listen: [\":81\", \"1.2.3.4:80\"]\n",
	 "f:5: services[1].listen[1]: 1.2.3.4:80 collides with *:80 of service \"a\": expected "
	 "another address or port"},
	{"services:\n- name: a\n  listen: [\"1.2.3.4:80\", \"[::]:80\"]\n",
	 "f:3: services[0].listen[1]: *:80 collides with 1.2.3.4:80 of service \"a\": expected "
	 "another address or port"},
	{SERVICE "  backends:\n  - {name: x, address: 10.0.0.1:80}\n  - {name: x, address: "
		 "10.0.0.2:80}\n",
	 "f:6: services[0].backends[1].name: \"x\" is also the name of services[0].backends[0]: "
	 "expected a name of its own"},
	{SERVICE "  backends:\n  - address: 10.0.0.1:80\n- name: b\n  listen: [\":81\"]\n"
		 "  backends:\n  - {name: y, address: \"[::ffff:10.0.0.1]:80\"}\n",
	 "f:9: services[1].backends[0].address: 10.0.0.1:80 is also the address of "
	 "services[0].backends[0] (\"10.0.0.1:80\"): expected each engine once"},
	{"services:\n- name: a\n  listen: [\"10.0.0.1:80\"]\n  backends:\n  - address: "
	 "10.0.0.1:80\n",
	 "f:5: services[0].backends[0].address: 10.0.0.1:80 is what service \"a\" listens on: "
	 "expected an engine's address"},
	{"max_backends: 1\n" SERVICE
	 "  backends:\n  - address: 10.0.0.1:80\n  - address: 10.0.0.2:80\n",
	 "f:3: services: 2 backends in all: expected at most max_backends (1)"},
};

static struct kv_config *load(const char *text)
{
	char err[KV_CONFIG_ERROR_LEN] = "";
	struct kv_config *config = NULL;

	if (kv_config_load_text("f", text, strlen(text), &config, err, sizeof(err)))
		printf("# %s\n", err);
	return config;
}

static void bad_files(void)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct kv_config *config = NULL;
		char err[KV_CONFIG_ERROR_LEN] = "";
		int rc = kv_config_load_text("f", bad[i].text, strlen(bad[i].text), &config, err,
					     sizeof(err));

		CHECK_EQ(rc, -EINVAL);
		CHECK(!config);
		CHECK_STR(err, bad[i].message);
		kv_config_free(config);
	}
}

static const char full[] =
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

static void full_file(void)
{
	_cleanup_config_ struct kv_config *c = load(full);
	char text[KV_ADDR_TEXT];

	CHECK(c);
	if (!c)
		return;
	CHECK_STR(c->pin, "/sys/fs/bpf/x");
	CHECK_STR(c->control, "/run/x.sock");
	CHECK_EQ(c->n_interfaces, 2);
	CHECK_STR(c->interfaces[1], "lo");
	CHECK_EQ(c->n_session_headers, 1);
	CHECK_STR(c->session_headers[0], "x-chat");
	CHECK_STR(c->user, "kvsteer");
	CHECK_STR(c->tenant_header, "x-tenant");
	CHECK_EQ(c->max_backends, 8);
	CHECK_EQ(c->upstreams_per_backend, 128);
	CHECK_EQ(c->max_clients, 1000);
	CHECK_EQ(c->max_prefixes, 2048);
	CHECK_EQ(c->max_sessions, 64);
	CHECK_EQ(c->trace.requests, 64);
	CHECK_EQ(c->trace.sample, 10);
	CHECK_EQ(c->timeouts.client_idle_ms, 60000);
	CHECK_EQ(c->timeouts.response_ms, 7200000);
	CHECK_EQ(c->timeouts.probe_ms, 0);
	CHECK_EQ(c->timeouts.drain_ms, 0);
	CHECK_EQ(c->timeouts.connect_ms, 250);
	CHECK_EQ(c->limits.body, 1 << 20);
	CHECK_EQ(c->limits.memory, 2000000000);
	CHECK_EQ(c->limits.clients, 10);
	CHECK_EQ(c->limits.clients_per_address, 5);
	CHECK_EQ(c->limits.memory_per_address, 1 << 20);
	CHECK_EQ(c->timeouts.request_ms, 7000);
	CHECK_STR(kv_addr_format(&c->http, text, sizeof(text)), "127.0.0.1:9090");
	CHECK_STR(c->follow.health_path, "/ping");
	CHECK_EQ(c->follow.health, 0);
	CHECK_EQ(c->follow.models, 60000);
	CHECK_EQ(c->follow.metrics, 500);
	CHECK_EQ(c->follow.health_timeout, 1000);
	CHECK_EQ(c->follow.metrics_timeout, 10);
	CHECK_EQ(c->follow.stale, 3000);
	CHECK_EQ(c->health.fall, 1);
	CHECK_EQ(c->health.eject_percent, 20);
	CHECK_EQ(c->health.eject_least, 2);
	CHECK_EQ(c->health.eject_share, 0);
	CHECK_EQ(c->health.eject_time, 1000);
	CHECK_EQ(c->health.slow_start, 0);
	CHECK_EQ(c->health.trial_successes, 9);
	CHECK_EQ(c->n_services, 3);
	CHECK(kv_config_service(c, "chat") == &c->services[0]);
	CHECK(!kv_config_service(c, "other"));
	CHECK_EQ(c->services[0].policy, KV_POLICY_ROUND_ROBIN);
	CHECK_EQ(c->services[0].floor, 512);
	CHECK_EQ(c->services[0].affinity, KV_AFFINITY_FULL);
	CHECK_EQ(c->services[1].affinity, KV_AFFINITY_AUTO);
	CHECK_EQ(c->services[0].body_limit, 2000);
	CHECK(c->services[0].answer_header);
	CHECK(!c->services[1].answer_header);
	CHECK_EQ(c->services[0].n_listen, 2);
	CHECK_STR(kv_addr_format(&c->services[0].listen[0], text, sizeof(text)), "*:8080");
	CHECK_STR(kv_addr_format(&c->services[0].listen[1], text, sizeof(text)), "[fd00::1]:8081");
	CHECK_EQ(c->services[0].n_backends, 2);
	CHECK_STR(c->services[0].backends[0].name, "e1");
	CHECK_EQ(c->services[0].backends[0].capacity, 131072);
	CHECK_EQ(c->services[0].backends[0].rate, 7);
	CHECK_STR(c->services[0].backends[1].name, "[fd00::2]:8000");
	CHECK_EQ(c->services[0].backends[1].capacity, 1000);
	CHECK_EQ(c->services[0].backends[1].rate, 0);
	CHECK_EQ(c->services[1].policy, KV_POLICY_PRICE);
	CHECK_EQ(c->services[1].body_limit, 1 << 20);
	CHECK_EQ(c->services[1].n_backends, 0);
	CHECK(c->services[0].events.on && c->services[0].events.lora_is_field);
	CHECK_STR(c->services[0].events.model, "m");
	CHECK_STR(c->services[0].events.topic, "kv@");
	CHECK_EQ(c->services[0].events.port, 5557);
	CHECK_EQ(c->services[0].events.replay_port, 5558);
	CHECK_EQ(c->services[0].events.ranks, 2);
	CHECK_EQ(c->services[0].events.first, 1);
	CHECK_EQ(c->services[0].events.block, 32);
	CHECK_EQ(c->services[0].events.weight[0], KV_TIER_WHOLE);
	CHECK_EQ(c->services[0].events.weight[1], KV_TIER_WHOLE * 3 / 4);
	CHECK_EQ(c->services[0].events.weight[2], KV_TIER_WHOLE / 8);
	CHECK_EQ(c->services[0].events.weight[3], 2);
	CHECK_EQ(c->services[0].backends[0].events_port, 9);
	CHECK_EQ(c->services[0].backends[0].replay_port, 0);
	CHECK_STR(c->services[1].events.bind, "tcp://[fd00::1]:5557");
	CHECK(!c->services[1].events.poll && c->services[2].events.poll);
	CHECK_STR(c->services[2].events.bind, "/kv_cache_events");
	CHECK_EQ(c->services[2].events.port, 0);
	CHECK_STR(c->services[0].discover.name, "_llm._tcp.x-1.test.");
	CHECK_STR(c->services[0].discover.servers, "10.0.0.53:53,[fd00::53]:5353");
	CHECK_EQ(c->services[0].discover.port, 0);
	CHECK_EQ(c->services[0].discover.min_ttl_ms, 200);
	CHECK_EQ(c->services[0].discover.max_ttl_ms, 3600000);
	CHECK_EQ(c->services[0].discover.capacity, 1000);
	CHECK_EQ(c->services[0].discover.rate, 500);
	CHECK_EQ(c->services[0].backends[0].origin, KV_ORIGIN_CONFIG);
	CHECK_STR(c->services[1].discover.name, "llm.test");
	CHECK_STR(c->services[1].discover.servers, "");
	CHECK_EQ(c->services[1].discover.port, 8000);
	CHECK_EQ(c->services[1].discover.max_ttl_ms, 600000); /* not less than the least */
	CHECK_EQ(c->services[1].discover.capacity, 0);
	CHECK_EQ(c->services[1].discover.rate, 0); /* learned */
	CHECK(!c->services[1].events.lora_is_field);
}

static void defaults(void)
{
	_cleanup_config_ struct kv_config *c =
		load("session_headers: []\ninterfaces: []\n" SERVICE);
	_cleanup_config_ struct kv_config *d = load(SERVICE "  backends: []\n");

	CHECK(c && d);
	if (!c || !d)
		return;
	CHECK_EQ(c->n_session_headers, 0);
	CHECK_EQ(d->n_session_headers, 7);
	CHECK_STR(d->user, "");
	CHECK_STR(d->tenant_header, "");
	CHECK(!d->services[0].events.on);
	CHECK_STR(d->services[0].discover.name, "");
	CHECK_EQ(d->limits.events, 1 << 30);
	CHECK_STR(d->session_headers[2], "x-claude-code-session-id");
	CHECK_STR(d->pin, KV_DEFAULT_PIN);
	CHECK_STR(d->control, KV_DEFAULT_CONTROL);
	CHECK_EQ(d->n_interfaces, 0);
	CHECK_EQ(d->services[0].body_limit, 64 << 20);
	CHECK_EQ(d->limits.clients, d->max_clients);
	CHECK_EQ(d->limits.clients_per_address, 0);
	CHECK_EQ(d->limits.memory_per_address, 0);
	CHECK_EQ(d->timeouts.request_ms, 60000);
	CHECK_EQ(d->timeouts.response_ms, 3600000);
	CHECK_EQ(d->timeouts.probe_ms, 15000);
	CHECK_EQ(d->trace.requests, 4096);
	CHECK_EQ(d->trace.sample, 1);
}

static void options(void)
{
	const char *listens[] = {"127.0.0.1:8080"};
	const char *backends[] = {"10.0.0.1:8000", "10.0.0.2:8000"};
	const char *wrong[] = {"10.0.0.1:8000", "engine:8000"};
	struct kv_config_options o = {
		.listens = listens,
		.n_listens = 1,
		.backends = backends,
		.n_backends = 2,
		.policy = "least",
	};
	char err[KV_CONFIG_ERROR_LEN];
	_cleanup_config_ struct kv_config *c = NULL;
	struct kv_config *none = NULL;

	CHECK_EQ(kv_config_from_options(&o, &c, err, sizeof(err)), 0);
	if (!c)
		return;
	CHECK_STR(c->services[0].name, "default");
	CHECK_EQ(c->services[0].policy, KV_POLICY_LEAST);
	CHECK_STR(c->services[0].backends[1].name, "10.0.0.2:8000");
	o.backends = wrong;
	CHECK_EQ(kv_config_from_options(&o, &none, err, sizeof(err)), -EINVAL);
	CHECK_STR(err, "command line: --backend: found \"engine:8000\": expected " ADDRESS);
	o.backends = backends;
	o.policy = "best";
	CHECK_EQ(kv_config_from_options(&o, &none, err, sizeof(err)), -EINVAL);
	CHECK_STR(err, "command line: --policy: found \"best\": expected " POLICIES);
	o.policy = NULL;
	o.n_listens = 0;
	CHECK_EQ(kv_config_from_options(&o, &none, err, sizeof(err)), -EINVAL);
	CHECK_STR(err, "command line: --listen: given 0 times: expected 1 to 8");
	CHECK(!none);
}

static void files(void)
{
	char err[KV_CONFIG_ERROR_LEN], path[] = "/tmp/test_config.XXXXXX";
	struct kv_config *c = NULL;
	int fd = mkstemp(path);

	CHECK_EQ(write(fd, full, sizeof(full) - 1), sizeof(full) - 1);
	close(fd);
	CHECK_EQ(kv_config_load(path, &c, err, sizeof(err)), 0);
	CHECK(c);
	kv_config_free(c);
	unlink(path);
	CHECK_EQ(kv_config_load("/nonexistent/f", &c, err, sizeof(err)), -ENOENT);
	CHECK_STR(err, "/nonexistent/f: cannot read: No such file or directory");
	CHECK_EQ(kv_config_load("/", &c, err, sizeof(err)), -EISDIR);
	CHECK_STR(err, "/: cannot read: Is a directory");
}

/* old and new differ in what: one text per change, in the order of the diff. */
static void differ(const char *old, const char *new, const char *const *what, size_t n)
{
	_cleanup_config_ struct kv_config *a = load(old);
	_cleanup_config_ struct kv_config *b = load(new);
	struct kv_diff diff = {0};

	CHECK(a && b);
	if (!a || !b)
		return;
	CHECK_EQ(kv_config_diff(a, b, &diff), 0);
	CHECK_EQ(diff.n, n);
	for (size_t i = 0; i < diff.n && i < n; i++)
		CHECK_STR(diff.changes[i].text, what[i]);
	kv_diff_free(&diff);
}

static void differences(void)
{
	static const char other[] = "timeouts: {drain: 1min, request: 5s}\n"
				    "max_clients: 100\n"
				    "limits: {clients_per_address: 4, memory_per_address: 64MiB}\n"
				    "http: \":99\"\n"
				    "follow: {health_path: /h, metrics: 5s}\n"
				    "health: {slow_start: 1min, eject_least: 50}\n"
				    "services:\n"
				    "- name: a\n"
				    "  listen: [\":80\", \":81\"]\n"
				    "  policy: hash\n"
				    "  affinity: off\n"
				    "  body_limit: 128MiB\n"
				    "  answer_header: true\n"
				    "  events: {bind: \"*:5557\"}\n"
				    "  discover: {dns: llm.test, port: 8000}\n"
				    "  backends:\n"
				    "  - {name: x, address: 10.0.0.1:80, rate: 5, capacity: 128, "
				    "replay_port: 7}\n"
				    "  - {name: y, address: 10.0.0.3:80}\n"
				    "- name: b\n"
				    "  listen: [\":90\"]\n"
				    "  backends: [{address: 10.0.0.4:80}]\n";
	static const char old[] = SERVICE "  backends:\n"
					  "  - {name: x, address: 10.0.0.1:80}\n"
					  "  - {name: y, address: 10.0.0.2:80}\n";
	static const char *const forth[] = {
		"backend y: removed from service a (10.0.0.2:80)",
		"backend y: added to service a (10.0.0.3:80)",
		"service b: added (*:90)",
		"backend 10.0.0.4:80: added to service b (10.0.0.4:80)",
		"max_clients: 65536 -> 100",
		"timeouts.request: 1min -> 5s",
		"timeouts.drain: 30s -> 1min",
		"limits.clients: 65536 -> 100",
		"limits.clients_per_address: 0 -> 4",
		"limits.memory_per_address: 0 -> 64MiB",
		"http: none -> *:99",
		"follow.health_path: /health -> /h",
		"follow.metrics: 1s -> 5s",
		"health.eject_least: 5 -> 50",
		"health.slow_start: 30s -> 1min",
		"service a: listen *:80 -> *:80,*:81",
		"service a: policy price -> hash",
		"service a: affinity auto -> off",
		"service a: body_limit 64MiB -> 128MiB",
		"service a: answer_header false -> true",
		"service a: events off -> bind tcp://*:5557",
		"service a: discover off -> llm.test port 8000",
		"backend x: capacity as told -> 128",
		"backend x: rate learned -> 5",
		"backend x: replay_port 0 -> 7",
	};
	static const char *const back[] = {
		"backend y: removed from service a (10.0.0.3:80)",
		"backend 10.0.0.4:80: removed from service b (10.0.0.4:80)",
		"service b: removed",
		"backend y: added to service a (10.0.0.2:80)",
		"max_clients: 100 -> 65536",
		"timeouts.request: 5s -> 1min",
		"timeouts.drain: 1min -> 30s",
		"limits.clients: 100 -> 65536",
		"limits.clients_per_address: 4 -> 0",
		"limits.memory_per_address: 64MiB -> 0",
		"http: *:99 -> none",
		"follow.health_path: /h -> /health",
		"follow.metrics: 5s -> 1s",
		"health.eject_least: 50 -> 5",
		"health.slow_start: 1min -> 30s",
		"service a: listen *:80,*:81 -> *:80",
		"service a: policy hash -> price",
		"service a: affinity off -> auto",
		"service a: body_limit 128MiB -> 64MiB",
		"service a: answer_header true -> false",
		"service a: events bind tcp://*:5557 -> off",
		"service a: discover llm.test port 8000 -> off",
		"backend x: capacity 128 -> as told",
		"backend x: rate 5 -> learned",
		"backend x: replay_port 7 -> 0",
	};

	differ(old, other, forth, sizeof(forth) / sizeof(*forth));
	differ(other, old, back, sizeof(back) / sizeof(*back));
	differ(old, old, NULL, 0);
	differ(full, full, NULL, 0);
}

/* Where the file names what a name stands for, it is the same one. */
static void origins(void)
{
	static const char text[] = SERVICE "  discover: {dns: llm.test, srv: true}\n"
					   "  backends: [{address: 10.0.0.1:80}]\n";
	static const char longer[] = SERVICE "  discover: {dns: llm.test, srv: true, max_ttl: 1h}\n"
					     "  backends: [{address: 10.0.0.1:80}]\n";
	static const char *const what[] = {
		"service a: discover llm.test SRV -> the same, other values",
	};
	_cleanup_config_ struct kv_config *a = load(text), *b = load(text);
	struct kv_diff diff = {0};

	CHECK(a && b);
	if (!a || !b)
		return;
	differ(text, longer, what, 1);
	a->services[0].backends[0].origin = KV_ORIGIN_DNS;
	CHECK_EQ(kv_config_diff(a, b, &diff), 0);
	CHECK_EQ(diff.n, 1);
	CHECK_STR(diff.n ? diff.changes[0].text : "", "backend 10.0.0.1:80: from dns -> config");
	kv_diff_free(&diff);
}

static void restarts(void)
{
	_cleanup_config_ struct kv_config *a = load(SERVICE);
	_cleanup_config_ struct kv_config *b =
		load("pin: /sys/fs/bpf/y\ninterfaces: [eth0]\ntimeouts: {drain: 1s}\n"
		     "user: a\ntenancy: {header: b}\nlimits: {events: 2GiB}\n" SERVICE);
	struct kv_diff diff = {0};

	CHECK(a && b);
	if (!a || !b)
		return;
	CHECK_EQ(kv_config_diff(a, b, &diff), 0);
	CHECK_EQ(diff.n, 6);
	for (size_t i = 0; i < diff.n; i++) {
		CHECK_EQ(diff.changes[i].type, KV_CHANGE_INSTANCE);
		CHECK_EQ(diff.changes[i].restart, !!strcmp(diff.changes[i].key, "timeouts.drain"));
	}
	kv_diff_free(&diff);
}

static void values(void)
{
	static const struct {
		__u64 bytes;
		const char *text;
	} sizes[] = {{0, "0"},
		     {1, "1"},
		     {1000, "1kB"},
		     {1024, "1KiB"},
		     {64 << 20, "64MiB"},
		     {2000000000, "2GB"},
		     {1ull << 40, "1024GiB"}};
	char buf[KV_VALUE_TEXT];
	__u64 v;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		CHECK_STR(kv_format_bytes(sizes[i].bytes, buf), sizes[i].text);
		CHECK_EQ(kv_parse_bytes(sizes[i].text, &v), 0);
		CHECK_EQ(v, sizes[i].bytes);
	}
	CHECK_STR(kv_format_duration(90000, buf), "90s");
	CHECK_STR(kv_format_duration(7200000, buf), "2h");
	CHECK_EQ(kv_parse_bytes("20000000000GiB", &v), -ERANGE);
	CHECK_EQ(kv_parse_bytes(" 1", &v), -EINVAL);
	CHECK_EQ(kv_parse_bytes("+1", &v), -EINVAL);
	CHECK_EQ(kv_parse_bytes("MiB", &v), -EINVAL);
	CHECK_EQ(kv_parse_duration("1 s", &v), -EINVAL);
	CHECK_EQ(kv_parse_capacity("4294967296x4294967296", &v), -ERANGE);
}

static void addresses(void)
{
	static const char *const same[] = {"1.2.3.4:80", "[::1]:65535", "*:1", "[fe80::1]:80"};
	static const char *const wrong[] = {
		"",	      "80",	     "1.2.3.4",	 "1.2.3.4:", "1.2.3:80",
		"::1:80",     "[::1]",	     "[::1:80",	 "[]:80",    "1.2.3.4:+1",
		"1.2.3.4: 1", "1.2.3.4:80 ", "[g::]:80", "host:80",  "[1.2.3.4]:80"};
	char text[KV_ADDR_TEXT];
	struct sockaddr_storage ss;
	struct kv_addr a, b;

	for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++) {
		CHECK_EQ(kv_addr_parse(same[i], &a), 0);
		CHECK_STR(kv_addr_format(&a, text, sizeof(text)), same[i]);
		kv_addr_to_sockaddr(&a, &ss);
		CHECK_EQ(kv_addr_from_sockaddr((struct sockaddr *)&ss, &b), 0);
		CHECK(kv_addr_equal(&a, &b));
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		CHECK_EQ(kv_addr_parse(wrong[i], &a), -EINVAL);
	CHECK_EQ(kv_addr_parse("1.2.3.4:0", &a), -ERANGE);
	CHECK_EQ(kv_addr_parse("1.2.3.4:65536", &a), -ERANGE);
	CHECK_EQ(kv_addr_parse("[::ffff:1.2.3.4]:80", &a), 0);
	CHECK(kv_addr_is_v4(&a));
	CHECK_EQ(a.addr[3], htonl(0x01020304));
	for (size_t i = 0; i < 4; i++) {
		static const char *const any[] = {":80", "*:80", "0.0.0.0:80", "[::]:80"};

		CHECK_EQ(kv_addr_parse(any[i], &a), 0);
		CHECK(kv_addr_is_any(&a));
	}
}

int main(void)
{
	TEST("bad files are refused with line, key and what was expected")
	bad_files();
	TEST("every key of a full file arrives")
	full_file();
	TEST("defaults")
	defaults();
	TEST("the no-file form")
	options();
	TEST("files that can and cannot be read")
	files();
	TEST("differences, there and back")
	differences();
	TEST("who has named a backend")
	origins();
	TEST("what needs a restart")
	restarts();
	TEST("sizes, times and capacities")
	values();
	TEST("addresses")
	addresses();
	return check_done();
}

// SPDX-License-Identifier: BSD-2-Clause
/* Configurations that are refused. */
#include "configs.h"

#define TOP_KEYS                                                                                   \
	"pin, control, interfaces, session_headers, user, tenancy, max_backends, "                 \
	"upstreams_per_backend, max_clients, max_prefixes, max_sessions, timeouts, limits, "       \
	"trace, watch, http, follow, health, services"
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

int main(void)
{
	TEST("bad files are refused with line, key and what was expected")
	bad_files();
	TEST("the no-file form")
	options();
	return check_done();
}

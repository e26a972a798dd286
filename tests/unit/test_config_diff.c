// SPDX-License-Identifier: BSD-2-Clause
/* Two configurations: what is told of them. */
#include "common/config_diff.h"
#include "configs.h"

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

int main(void)
{
	TEST("differences, there and back")
	differences();
	TEST("who has named a backend")
	origins();
	TEST("what needs a restart")
	restarts();
	return check_done();
}

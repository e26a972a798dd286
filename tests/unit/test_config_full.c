// SPDX-License-Identifier: BSD-2-Clause
/* What arrives of a configuration. */
#include <stdlib.h>
#include <unistd.h>

#include "common/config_values.h"
#include "configs.h"

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
	TEST("every key of a full file arrives")
	full_file();
	TEST("defaults")
	defaults();
	TEST("files that can and cannot be read")
	files();
	TEST("sizes, times and capacities")
	values();
	TEST("addresses")
	addresses();
	return check_done();
}

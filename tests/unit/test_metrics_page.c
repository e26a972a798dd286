// SPDX-License-Identifier: BSD-2-Clause
/* kvsteerd's own pages: what is in them, the conventions, and whoever sends whatever. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "engines/expose.h"
#include "engines/fetch.h"
#include "engines/page_server.h"
#include "engines/prom.h"
#include "loop_server.h"

#define SECOND 1000000000ull
#define NOW (1000 * SECOND)

static __u64 counters[KV_CNT_MAX];
static struct kv_backend maps[2];
static struct engine_report reports[2];
static struct proof proofs[2];
static struct kv_service_found found[2];
static struct view_service services[2];
static struct view_backend backends[2];
static struct view view;

static void set_up(void)
{
	for (int i = 0; i < KV_CNT_MAX; i++)
		counters[i] = 1000 + i;
	maps[0] =
		(struct kv_backend){.requests = 7, .prompt_tokens = 1ull << 50, .capacity = 262144};
	reports[0] = (struct engine_report){
		.load = {.has = LOAD_RUNNING | LOAD_CACHE_USE,
			 .kind = ENGINE_VLLM,
			 .running = 3,
			 .cache_use = 0.25},
		.at_ns = NOW - 2 * SECOND,
		.scrapes = 9,
	};
	reports[1] = reports[0];
	reports[1].at_ns = NOW - 20 * SECOND;
	proof_lookup(&proofs[0], PROOF_SALTED, 0);
	proof_lookup(&proofs[0], PROOF_PLAIN, 100);
	found[0] = (struct kv_service_found){.answered_at = NOW - 3 * SECOND,
					     .rounds = 8,
					     .failures = 2,
					     .engines = 4,
					     .passed_over = 1};
	found[1] = (struct kv_service_found){.rounds = 5, .failures = 5, .failing = 5};
	services[0] = (struct view_service){"chat", "price", 2, 1, 3, "llm.test", &found[0]};
	services[1] = (struct view_service){"odd \"name\\\n", "p2c", 1, 1, 0, "x.test", &found[1]};
	backends[0] = (struct view_backend){.service = "chat",
					    .name = "a",
					    .address = "10.0.0.1:80",
					    .map = &maps[0],
					    .state = HEALTH_UP,
					    .weight = HEALTH_FULL / 2,
					    .restarts = 1,
					    .report = &reports[0],
					    .stale_ns = 5 * SECOND,
					    .proof = &proofs[0],
					    .verdict = {.cause = PROOF_CAPACITY,
							.alarm = true,
							.by_usage = true,
							.predicted = 100,
							.actual = 40,
							.ratio = 0.4}};
	backends[1] = (struct view_backend){.service = "chat",
					    .name = "b",
					    .address = "10.0.0.2:80",
					    .state = HEALTH_DOWN,
					    .report = &reports[1],
					    .stale_ns = 5 * SECOND};
	view = (struct view){"1.2", 1.7e9, NOW, false, counters, services, 2, backends, 2};
}

static char *page;

static bool has(const char *line)
{
	size_t len = strlen(line);

	for (const char *p = page; (p = strstr(p, line)); p++)
		if ((p == page || p[-1] == '\n') && p[len] == '\n')
			return true;
	return false;
}

static void figures(void)
{
	struct page p = page_metrics(&view);

	page = p.text;
	CHECK_EQ(p.status, 200);
	CHECK_STR(p.type, "text/plain; version=0.0.4; charset=utf-8");
	CHECK_EQ(p.len, strlen(p.text));
	CHECK(has("kvsteer_build_info{version=\"1.2\"} 1"));
	CHECK(has("kvsteer_ready 1"));
	CHECK(has("# TYPE kvsteer_requests_express_total counter"));
	CHECK(has("kvsteer_requests_express_total 1000"));
	CHECK(has("kvsteer_service_info{service=\"odd \\\"name\\\\\\n\",policy=\"p2c\"} 1"));
	CHECK(has("kvsteer_service_ejections_spared_total{service=\"chat\"} 3"));
	CHECK(has("kvsteer_discovery_up{service=\"chat\",dns=\"llm.test\"} 1"));
	CHECK(has("kvsteer_discovery_engines{service=\"chat\",dns=\"llm.test\"} 4"));
	CHECK(has("kvsteer_discovery_engines_passed_over{service=\"chat\",dns=\"llm.test\"} 1"));
	CHECK(has("kvsteer_discovery_success_age_seconds{service=\"chat\",dns=\"llm.test\"} 3"));
	CHECK(has("kvsteer_discovery_rounds_total{service=\"chat\",dns=\"llm.test\"} 8"));
	CHECK(has("kvsteer_discovery_failures_total{service=\"chat\",dns=\"llm.test\"} 2"));
	/* not answered yet: it has no age */
	CHECK(has("kvsteer_discovery_up{service=\"odd \\\"name\\\\\\n\",dns=\"x.test\"} 0"));
	CHECK(strstr(page, "discovery_success_age_seconds{") &&
	      !strstr(page, "discovery_success_age_seconds{service=\"odd"));
	CHECK(has("kvsteer_backend_requests_total{service=\"chat\",backend=\"a\"} 7"));
	CHECK(has("kvsteer_backend_prompt_tokens_total{service=\"chat\",backend=\"a\"} "
		  "1125899906842624"));
	CHECK(has("kvsteer_backend_info{service=\"chat\",backend=\"a\",address=\"10.0.0.1:80\","
		  "engine=\"vllm\"} 1"));
	CHECK(has("kvsteer_backend_state{service=\"chat\",backend=\"b\",state=\"down\"} 1"));
	CHECK(has("kvsteer_backend_state{service=\"chat\",backend=\"b\",state=\"up\"} 0"));
	CHECK(has("kvsteer_backend_weight_ratio{service=\"chat\",backend=\"a\"} 0.5"));
	CHECK(has("kvsteer_backend_prediction_ratio{service=\"chat\",backend=\"a\"} 0.4"));
	CHECK(has("kvsteer_backend_prediction_alarm{service=\"chat\",backend=\"a\",cause="
		  "\"capacity\"} 1"));
	CHECK(has("kvsteer_backend_lookup_misses_total{service=\"chat\",backend=\"a\",prompt="
		  "\"salted\"} 1"));
	CHECK(has("kvsteer_backend_match_depth_tokens_bucket{service=\"chat\",backend=\"a\",le="
		  "\"64\"} 1"));
	CHECK(has("kvsteer_backend_match_depth_tokens_bucket{service=\"chat\",backend=\"a\",le="
		  "\"128\"} 2"));
	CHECK(has("kvsteer_backend_match_depth_tokens_bucket{service=\"chat\",backend=\"a\",le="
		  "\"+Inf\"} 2"));
	CHECK(has("kvsteer_backend_match_depth_tokens_sum{service=\"chat\",backend=\"a\"} 100"));
	/* of now, and of too long ago; what was not said is not there */
	CHECK(has("kvsteer_engine_running_requests{service=\"chat\",backend=\"a\"} 3"));
	CHECK(has("kvsteer_engine_cache_usage_ratio{service=\"chat\",backend=\"a\"} 0.25"));
	CHECK(!strstr(page, "kvsteer_engine_running_requests{service=\"chat\",backend=\"b\"}"));
	CHECK(!strstr(page, "kvsteer_engine_waiting_requests{"));
	CHECK(has("kvsteer_engine_report_age_seconds{service=\"chat\",backend=\"b\"} 20"));
	CHECK(!strstr(page, "kvsteer_backend_requests_total{service=\"chat\",backend=\"b\"}"));
	free(p.text);
}

/* A page as a scraper sees it: families in one piece, each with its type; names by convention. */
static struct {
	char family[128], type[16];
	char seen[512][128];
	unsigned int families, samples, odd;
} lint;

static bool ends(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && !strcmp(text + n - m, end);
}

static bool wants(void *arg, const char *name)
{
	bool histogram = !strcmp(lint.type, "histogram");
	size_t n = strlen(lint.family);

	(void)arg;
	if (strncmp(name, lint.family, n) ||
	    (histogram ? strcmp(name + n, "_bucket") && strcmp(name + n, "_sum") &&
				 strcmp(name + n, "_count")
		       : name[n])) {
		printf("# %s in family %s\n", name, lint.family);
		lint.odd++;
	}
	return true;
}

static void sample(void *arg, const struct prom_sample *s)
{
	(void)arg;
	(void)s;
	lint.samples++;
}

static void family(const char *line)
{
	sscanf(line, "# TYPE %127s %15s", lint.family, lint.type);
	for (unsigned int i = 0; i < lint.families; i++)
		lint.odd += !strcmp(lint.seen[i], lint.family);
	strcpy(lint.seen[lint.families++ % 512], lint.family);
	if (ends(lint.family, "_total") != !strcmp(lint.type, "counter")) {
		printf("# %s is a %s\n", lint.family, lint.type);
		lint.odd++;
	}
	lint.odd += strncmp(lint.family, "kvsteer_", 8) && strncmp(lint.family, "process_", 8);
}

static void conventions(void)
{
	static struct prom_reader reader;
	struct prom_sink sink = {wants, sample, NULL};
	struct page p = page_metrics(&view);
	char *save = NULL;

	prom_begin(&reader, &sink, 1 << 20);
	for (char *line = strtok_r(p.text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (!strncmp(line, "# TYPE ", 7))
			family(line);
		prom_feed(&reader, line, strlen(line));
		prom_feed(&reader, "\n", 1);
	}
	prom_end(&reader);
	CHECK_EQ(reader.malformed, 0);
	CHECK_EQ(lint.odd, 0);
	CHECK(lint.families > 100 && lint.samples > lint.families);
	free(p.text);
}

static void readiness(void)
{
	struct page p = page_readyz(&view);

	CHECK_EQ(p.status, 200);
	free(p.text);
	services[0].taking = 0;
	p = page_readyz(&view);
	CHECK_EQ(p.status, 503);
	CHECK_STR(p.text, "service chat: none of its 2 backends takes requests\n");
	free(p.text);
	p = page_healthz(&view);
	CHECK_EQ(p.status, 200);
	free(p.text);
	services[0].taking = 1;
	view.draining = true;
	p = page_readyz(&view);
	CHECK_EQ(p.status, 503);
	CHECK_STR(p.text, "draining: no further request is taken\n");
	free(p.text);
	view.draining = false;
	p = page_of(&view, "/x");
	CHECK_EQ(p.status, 404);
	free(p.text);
	p = page_of(&view, NULL);
	CHECK_EQ(p.status, 404);
	free(p.text);
}

/* ---- over HTTP ---- */

static struct event_base *base;
static struct {
	unsigned int done;
	int status;
	size_t bytes;
} got;

static bool data(void *arg, const char *p, size_t n)
{
	(void)arg;
	(void)p;
	got.bytes += n;
	return true;
}

static void done(void *arg, enum fetch_result result, int status)
{
	(void)arg;
	got.done++;
	got.status = result == FETCH_ANSWERED ? status : -(int)result;
}

static struct page serve(void *arg, const char *path)
{
	return page_of(arg, path);
}

static int get(struct page_server *s, const char *path)
{
	struct fetch_request r = {path, 20000, 1 << 20, NULL, 0, data, done, NULL};
	struct kv_addr at = page_server_address(s);

	got.done = 0;
	got.bytes = 0;
	fetch_start(base, &at, &r);
	CHECK(loop_until(base, &got.done, 1, 3000));
	return got.status;
}

static int connected(struct page_server *s)
{
	struct kv_addr at = page_server_address(s);
	struct sockaddr_storage ss;
	socklen_t len = kv_addr_to_sockaddr(&at, &ss);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(!connect(fd, (struct sockaddr *)&ss, len));
	return fd;
}

/* The first bytes of the answer to these; "": it is closed. */
static const char *say(struct page_server *s, const char *bytes, size_t len)
{
	static char answer[64];
	int fd = connected(s);
	ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

	/* what is not a whole request gets no answer, after a while that is seen */
	n = -1;
	for (int i = 0; i < (memmem(bytes, len, "\n", 1) || len > 4096 ? 2000 : 50) && n < 0; i++) {
		loop_for(base, 2);
		n = recv(fd, answer, sizeof(answer) - 1, MSG_DONTWAIT);
	}
	answer[n > 0 ? n : 0] = 0;
	answer[strcspn(answer, "\r")] = 0;
	close(fd);
	return answer;
}

static void over_http(void)
{
	static char junk[5000];
	struct page_server *s;
	struct kv_addr any;
	int fds[PAGE_SERVER_CONNS + 8];

	CHECK(!kv_addr_parse("127.0.0.1:1", &any));
	any.port = 0;
	CHECK_EQ(page_server_open(base, &any, serve, &view, &s), 0);
	CHECK_EQ(get(s, "/metrics"), 200);
	CHECK(got.bytes > 10000);
	CHECK_EQ(get(s, "/readyz?verbose"), 200);
	CHECK_EQ(get(s, "/"), 404);
	CHECK_STR(say(s, "HEAD /metrics HTTP/1.0\r\n\r\n", 26), "HTTP/1.1 200 OK");
	CHECK_STR(say(s, "POST /metrics HTTP/1.1\r\n\r\nx", 27), "HTTP/1.1 405 Method Not Allowed");
	CHECK_STR(say(s, "GET http://x/ HTTP/1.1\r\n\r\n", 26), "HTTP/1.1 400 Bad Request");
	CHECK_STR(say(s, "\n\n", 2), "HTTP/1.1 400 Bad Request");
	CHECK_STR(say(s, "\0\0\r\n\r\n", 6), "HTTP/1.1 400 Bad Request");
	CHECK_STR(say(s, "GET / HTTP/2\r\n\r\n", 16), "HTTP/1.1 400 Bad Request");
	CHECK_STR(say(s, "GET /", 5), "");
	memset(junk, 'x', sizeof(junk));
	CHECK_STR(say(s, junk, sizeof(junk)), "HTTP/1.1 431 Request Header Fields Too Large");
	/* many that say nothing: the oldest make room */
	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		fds[i] = connected(s);
		loop_for(base, 1);
	}
	for (int i = 0; i < 1000 && recv(fds[0], junk, 1, MSG_DONTWAIT) < 0; i++)
		loop_for(base, 2);
	CHECK_EQ(recv(fds[0], junk, 1, MSG_DONTWAIT), 0);
	CHECK_EQ(recv(fds[39], junk, 1, MSG_DONTWAIT), -1);
	CHECK_EQ(get(s, "/healthz"), 200);
	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		close(fds[i]);
	loop_for(base, 5);
	fds[0] = connected(s);
	loop_for(base, 5);
	page_server_close(s);
	close(fds[0]);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	base = event_base_new();
	set_up();
	TEST("figures")
	figures();
	TEST("conventions")
	conventions();
	TEST("healthz and readyz")
	readiness();
	TEST("over HTTP")
	over_http();
	event_base_free(base);
	return check_done();
}

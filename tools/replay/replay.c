// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <event2/event.h>
#include <kvsteer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "answer.h"
#include "replay.h"

/* The first request is due this long after the start: nothing of the set-up makes it late. */
#define LEAD_S 0.2

struct run {
	const struct replay_options *o;
	const struct trace *t;
	struct outcome *outcomes;
	struct clients clients;
	struct event_base *base;
	struct event *departure;
	struct event *ticker;
	const char *path;
	double start_s;
	size_t sent, ended, errors;
	uint64_t prompt_tokens, cached_tokens;
};

struct shot {
	struct run *run;
	size_t index;
	struct connection *connection;
	struct answer answer;
	const char *failure; /* of the connection */
};

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static double since_due_s(const struct run *run, size_t i)
{
	return now_s() - run->start_s - run->outcomes[i].due_s;
}

static void end_shot(struct shot *shot, const char *error)
{
	struct run *run = shot->run;
	struct outcome *out = &run->outcomes[shot->index];

	out->total_s = since_due_s(run, shot->index);
	out->error = error;
	out->prompt_tokens = shot->answer.prompt_tokens;
	out->cached_tokens = shot->answer.cached_tokens;
	out->answer_tokens = shot->answer.completion_tokens;
	run->prompt_tokens += out->prompt_tokens;
	run->cached_tokens += out->cached_tokens;
	run->errors += !!error;
	if (shot->connection)
		clients_give(&run->clients, shot->connection);
	answer_free(&shot->answer);
	free(shot);
	if (++run->ended == run->t->n)
		event_base_loopbreak(run->base);
}

static void on_bytes(struct evhttp_request *req, void *arg)
{
	struct shot *shot = arg;
	struct outcome *out = &shot->run->outcomes[shot->index];

	if (evhttp_request_get_response_code(req) != HTTP_OK)
		return;
	answer_feed(&shot->answer, evhttp_request_get_input_buffer(req));
	if (!out->ttft_s && shot->answer.content_events)
		out->ttft_s = since_due_s(shot->run, shot->index);
}

static void on_failure(enum evhttp_request_error error, void *arg)
{
	struct shot *shot = arg;

	if (error == EVREQ_HTTP_TIMEOUT)
		shot->failure = "timeout";
	else if (error == EVREQ_HTTP_EOF)
		shot->failure = "connection closed";
	else if (error == EVREQ_HTTP_INVALID_HEADER)
		shot->failure = "invalid response head";
}

static void on_end(struct evhttp_request *req, void *arg)
{
	struct shot *shot = arg;
	struct run *run = shot->run;
	struct outcome *out = &run->outcomes[shot->index];
	const char *engine;
	uint32_t want;

	if (req)
		out->status = evhttp_request_get_response_code(req);
	if (!out->status) {
		end_shot(shot, shot->failure ? shot->failure : "connection failed");
		return;
	}
	engine = evhttp_find_header(evhttp_request_get_input_headers(req), "X-Engine");
	snprintf(out->engine, sizeof(out->engine), "%s", engine ? engine : "unnamed");
	want = prompt_answer_tokens(&run->o->shape, &run->t->requests[shot->index]);
	end_shot(shot, out->status == HTTP_OK ? answer_fault(&shot->answer, want, run->o->merged)
					      : "status other than 200");
}

static int add_hint(struct run *run, const char *body, size_t len, struct evkeyvalq *head)
{
	char value[KVSTEER_HEADER_SIZE];
	struct kvsteer_prompt prompt;
	int err = kvsteer_body(run->path, body, len, NULL, &prompt);

	if (err)
		return err;
	err = kvsteer_header(&prompt, value, sizeof(value));
	if (err < 0)
		return err;
	return evhttp_add_header(head, KVSTEER_HEADER_NAME, value);
}

static int fill_request(struct run *run, size_t i, struct evhttp_request *req)
{
	struct evkeyvalq *head = evhttp_request_get_output_headers(req);
	size_t len;
	char *body = prompt_body(&run->o->shape, run->t, &run->t->requests[i], &len);
	int err;

	if (!body)
		return -ENOMEM;
	evhttp_add_header(head, "Host", run->o->to);
	evhttp_add_header(head, "Content-Type", "application/json");
	err = run->o->hint ? add_hint(run, body, len, head) : 0;
	if (!err)
		err = evbuffer_add(evhttp_request_get_output_buffer(req), body, len);
	free(body);
	return err;
}

static void send_request(struct run *run, size_t i)
{
	struct shot *shot = calloc(1, sizeof(*shot));
	struct evhttp_request *req = evhttp_request_new(on_end, shot);

	if (!shot || !req || answer_init(&shot->answer)) {
		fprintf(stderr, "kv-replay: out of memory\n");
		exit(1);
	}
	shot->run = run;
	shot->index = i;
	run->outcomes[i].late_s = since_due_s(run, i);
	evhttp_request_set_chunked_cb(req, on_bytes);
	evhttp_request_set_error_cb(req, on_failure);
	shot->connection = clients_take(&run->clients, i % run->o->n_sources);
	if (!shot->connection || fill_request(run, i, req)) {
		evhttp_request_free(req);
		end_shot(shot, "not sent");
	} else if (clients_post(&run->clients, shot->connection, req, run->path)) {
		end_shot(shot, "cannot connect");
	}
}

static void on_departure(evutil_socket_t fd, short what, void *arg)
{
	struct run *run = arg;

	(void)fd;
	(void)what;
	while (run->sent < run->t->n) {
		double wait_s = -since_due_s(run, run->sent);

		if (wait_s > 0) {
			struct timeval tv = {.tv_sec = wait_s};

			tv.tv_usec = (wait_s - tv.tv_sec) * 1e6;
			evtimer_add(run->departure, &tv);
			return;
		}
		send_request(run, run->sent++);
	}
}

static void show_progress(const struct run *run, const char *before, const char *after)
{
	double hits = run->prompt_tokens ? 100.0 * run->cached_tokens / run->prompt_tokens : 0;

	fprintf(stderr, "%s%5.1f s  %5zu of %zu sent  %5zu answered  hit rate %4.1f %%", before,
		now_s() - run->start_s, run->sent, run->t->n, run->ended, hits);
	if (run->errors)
		fprintf(stderr, "  %zu errors", run->errors);
	fputs(after, stderr);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	show_progress(arg, isatty(STDERR_FILENO) ? "\r" : "", isatty(STDERR_FILENO) ? " " : "\n");
}

static int run_loop(struct run *run)
{
	struct timeval first = {}, tick = {.tv_usec = 500000};

	if (!isatty(STDERR_FILENO))
		tick = (struct timeval){.tv_sec = 5};
	run->departure = evtimer_new(run->base, on_departure, run);
	run->ticker = event_new(run->base, -1, EV_PERSIST, on_tick, run);
	if (!run->departure || !run->ticker)
		return -ENOMEM;
	evtimer_add(run->departure, &first);
	evtimer_add(run->ticker, &tick);
	event_base_dispatch(run->base);
	show_progress(run, isatty(STDERR_FILENO) ? "\r" : "", "\n");
	return 0;
}

int replay_run(const struct replay_options *o, const struct trace *t, struct outcome *ret_outcomes,
	       unsigned int *ret_connections)
{
	struct run run = {
		.o = o,
		.t = t,
		.outcomes = ret_outcomes,
		.path = o->shape.chat ? "/v1/chat/completions" : "/v1/completions",
		.base = event_base_new(),
	};
	int err;

	if (!run.base)
		return -ENOMEM;
	err = clients_open(&run.clients, o->to, o->sources, o->n_sources, o->timeout_s, run.base);
	if (!err) {
		for (size_t i = 0; i < t->n; i++)
			ret_outcomes[i].due_s = t->requests[i].at_s / o->speed;
		run.start_s = now_s() + LEAD_S;
		err = run_loop(&run);
		*ret_connections = run.clients.n_connections;
		clients_close(&run.clients);
	}
	if (run.departure)
		event_free(run.departure);
	if (run.ticker)
		event_free(run.ticker);
	event_base_free(run.base);
	return err;
}

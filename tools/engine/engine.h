// SPDX-License-Identifier: BSD-2-Clause
/*
 * An emulated inference engine: an OpenAI-compatible HTTP/1.1 server with a real prefix cache,
 * one prefill at a time, a decode interval, and faults on demand. Many run in one process.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "buf.h"
#include "cache.h"
#include "http.h"
#include "sha256.h"

#define MODELS_MAX 64

enum { METRICS_VLLM, METRICS_VLLM_OLD, METRICS_SGLANG, METRICS_TRTLLM };

struct options {
	const char *model;
	uint32_t blocks, block_size, max_model_len;
	double rate; /* prefill tokens per second, 0: no time */
	double decode_ms;
	double keep_alive_s;
	bool instant;		      /* no cache: answers at once */
	int dialect;		      /* METRICS_*: of its metrics page */
	double started;		      /* Unix time */
	const char *also[MODELS_MAX]; /* further names at /v1/models */
	int n_also;
	FILE *log;
	const char *raw_dir;
};

/* What goes wrong, and for how many requests (0: until changed). */
struct fault {
	bool refuse, hang, rst_before_headers;
	bool close_after_response; /* without having said so */
	bool say_close;		   /* with Connection: close */
	bool no_cache;		   /* nothing is kept, nothing found, and no look-up counted */
	bool followed;		   /* also what followers ask for */
	int64_t rst_after_tokens, fin_mid_body; /* -1: off */
	int status;
	uint32_t health_ms;
	uint32_t after_ms; /* rst_before_headers: so long after the request */
	int health_status;
	uint64_t count;
};

/* Beside them, once and at once: connections reset; idle ones closed with FIN. */
enum fault_now { FAULT_NONE, FAULT_RESET, FAULT_CLOSE };

struct stats {
	uint64_t connections, accepted, requests, refused, aborted, foreign_bytes;
	uint64_t questions; /* of who follows it, beside the requests */
	uint64_t waiting, running;
	uint64_t prompt_tokens, generation_tokens, queries, hits;
	uint64_t ttft_count;
	double ttft_sum;
};

struct conn;
struct answer;

struct engine {
	char name[64];
	char listen[64]; /* as given */
	struct options *opt;
	struct event_base *base;
	struct sockaddr_storage addr;
	socklen_t addr_len;
	int fd;
	struct event accept_ev;
	bool control; /* answers /fault only */
	struct cache *cache;
	struct events *events; /* NULL: publishes none */
	struct fault fault;
	struct stats stats;
	TAILQ_HEAD(answers, answer) queue; /* waiting for prefill, first in first out */
	struct answer *prefilling;
	LIST_HEAD(, conn) conns;
	LIST_ENTRY(engine) link;
};

LIST_HEAD(engines, engine);
extern struct engines engines;

int engine_listen(struct engine *e);
void engine_unlisten(struct engine *e);

/* What a connection is busy with beyond one call. Freed by the job itself. */
struct job {
	void (*pump)(struct conn *c);	/* the output has drained */
	void (*cancel)(struct conn *c); /* the client is gone */
};

enum conn_state { CONN_READ, CONN_BUSY, CONN_FLUSH, CONN_LINGER };

struct conn {
	struct engine *engine;
	LIST_ENTRY(conn) link;
	struct event rd, wr, timer;
	int fd;
	uint64_t id;
	enum conn_state state;
	struct job *job;
	struct buf in, out;
	struct request req; /* slices are valid until its handler returns */
	struct chunks chunks;
	bool chunking, continued, early, eof, hup, keep_alive, head_only, in_loop, paused, rst;
	uint64_t n_requests;
	int64_t last_ms; /* last activity, CLOCK_MONOTONIC */
	/* for the log */
	int status;
	char tag[64], line[160];
	uint64_t body_len, sent;
	struct sha256 hash;
	char body_hash[65];
	FILE *raw_in, *raw_out;
	int64_t fin_mid_body, rst_after_tokens; /* faults of this request, -1: none */
	bool close_silently;
	bool until_close; /* a stream's framing: the connection's end */
	int64_t cut;	  /* answer bytes until the connection is cut, -1: never */
};

int64_t now_ms(void);
void conn_accept(evutil_socket_t fd, short what, void *arg);
void conn_sweep(struct engine *e);
/* Answer bytes. What is added before conn_done() belongs to the current request. */
void conn_add(struct conn *c, const void *data, size_t n);
void conn_addf(struct conn *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void conn_interim(struct conn *c, const char *text);
/* A head and, for length >= 0, Content-Length; -1: chunked; -2: until close. */
void conn_head(struct conn *c, int status, const char *type, int64_t length, const char *extra);
/* A whole answer. */
void conn_answer(struct conn *c, int status, const char *type, const char *body, size_t n);
void conn_error(struct conn *c, int status, const char *message);
void conn_done(struct conn *c); /* the answer is complete */
void conn_run(struct conn *c);	/* goes on: may free c, so it comes last */
void conn_rst(struct conn *c);
void conn_close_idle(struct conn *c); /* by FIN, if no request is in hand */

/* api.c: a whole request has arrived */
void api_request(struct conn *c);
/* tagged.c: false if the request has no tag */
bool tagged_request(struct conn *c);
/* The head has come: answers at once if it asks for that, and sets early. */
void tagged_early(struct conn *c);
/* bytes.c, completion.c, fault.c */
void bytes_request(struct conn *c);
void completion_request(struct conn *c, int api);
void metrics_request(struct conn *c);
int metrics_dialect(const char *name); /* -1: there is none of that name */
void tokenize_request(struct conn *c);
void detokenize_request(struct conn *c);
void fault_clear(struct fault *f);
int fault_parse(const char *json, size_t n, struct fault *f, enum fault_now *ret_now,
		const char **ret_why);
void fault_request(struct conn *c);
/* Whom a request means: ?engine=NAME, or the one it came to; NULL: none. */
struct engine *fault_engine(struct conn *c);
/* Takes the fault of this request: true if the request was dealt with. */
bool fault_take(struct conn *c);

/* log.c */
void log_accept(struct conn *c);
void log_close(struct conn *c, const char *how);
void log_event(struct conn *c, const char *event);
void log_request(struct conn *c);
void log_bad(struct conn *c, const char *why);
void log_answer(struct conn *c);

#endif

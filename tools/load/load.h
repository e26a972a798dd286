/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv-load: a closed-loop HTTP/1.1 client that checks every answer.
 *
 * One thread, one epoll. Each connection sends a request, reads the whole answer and sends the
 * next. Whatever can be made before the clock starts is: bodies, tails, heads and KV-Prefix
 * headers.
 */
#ifndef KV_LOAD_H
#define KV_LOAD_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>
#include <xxhash.h>

#include "../common/answer.h"

#define LOAD_MAX_TARGETS 16
#define LOAD_MAX_HEADERS 16
#define LOAD_MAX_WATCHED 16
#define LOAD_IOVS 5 /* head, chunk size, prompt, tail, last chunk */

struct load_options {
	struct sockaddr_storage targets[LOAD_MAX_TARGETS];
	unsigned int n_targets;
	unsigned int connections;
	double seconds;
	double warmup;
	uint64_t warmup_requests; /* it lasts at least so many */
	double timeout;
	uint64_t requests; /* stop after so many, 0 = by time */
	const char *method;
	const char *path;
	const char *headers[LOAD_MAX_HEADERS];
	unsigned int n_headers;
	const char *body_file;
	size_t prompt_bytes;  /* length of a made chat prompt, 0 = no made body */
	unsigned int prompts; /* distinct ones */
	size_t tail_bytes;    /* own end of every request's prompt */
	unsigned int tails;   /* distinct requests that are made ahead */
	uint64_t seed;
	bool hint;
	bool chunked;
	bool stream;
	unsigned int max_tokens;
	uint64_t expect_events;
	uint64_t expect_bytes;
	bool hash;
	int watch[LOAD_MAX_WATCHED]; /* processes whose CPU time is counted, with their children */
	unsigned int n_watch;
};

int load_parse_options(int argc, char **argv, struct load_options *ret_options);

/* ---- requests (request.c) ---------------------------------------------------- */

struct load_request {
	struct iovec iov[LOAD_IOVS];
	int n_iov;
	size_t len;
};

struct load_requests {
	struct load_request *all;
	unsigned int n;
	size_t body_bytes;
};

int load_make_requests(const struct load_options *o, struct load_requests *ret_requests);

/* ---- answers (response.c) ------------------------------------------------------------ */

enum load_status {
	LOAD_MORE,	/* the answer is not complete */
	LOAD_DONE,	/* complete: the connection can take the next request */
	LOAD_DONE_LAST, /* complete, and the connection ends with it */
	LOAD_BAD,	/* not HTTP, or not what was asked for: response.http.error says why */
};

struct load_response {
	struct answer http;
	uint64_t events;
	bool sse_seen_done;
	uint8_t sse_match;  /* bytes of the line that match "data: [DONE]"; 255 when one did not */
	XXH3_state_t *hash; /* NULL: not asked for */
};

void load_response_init(struct load_response *r, const struct load_options *o);
enum load_status load_response_feed(struct load_response *r, const struct load_options *o,
				    const char *data, size_t len);
/* The peer has closed. */
enum load_status load_response_eof(struct load_response *r, const struct load_options *o);

/* ---- the run (run.c) ----------------------------------------------------------------- */

enum load_error {
	LOAD_ERR_CONNECT, /* connection could not be made */
	LOAD_ERR_RESET,	  /* … broke, or closed before the answer was complete */
	LOAD_ERR_TIMEOUT,
	LOAD_ERR_STATUS, /* not 2xx */
	LOAD_ERR_ANSWER, /* framing, length, hash or events are wrong */
	LOAD_ERR_MAX,
};

struct load_result {
	uint32_t *latency_ns; /* one a request completed inside the window */
	uint32_t *first_ns;   /* … until its first byte */
	uint64_t n;
	uint64_t room;
	double seconds;
	uint64_t bytes_in; /* body bytes of those */
	uint64_t bytes_out;
	uint64_t events;
	uint64_t errors[LOAD_ERR_MAX];
	uint64_t reconnects;
	uint64_t body_hash; /* of the first answer; another one is an error */
	bool have_hash;
	char example[160]; /* the first error, in words */
	double client_cpu_s;
	double watched_cpu_s;
	double machine_busy_s;
};

int load_run(const struct load_options *o, const struct load_requests *q, struct load_result *ret);

/* Sorts the latencies and prints one JSON object. */
int load_report(const struct load_options *o, const struct load_requests *q, struct load_result *r);

/* ---- CPU time (cpu.c) ---------------------------------------------------------------- */

struct load_cpu {
	struct {
		int tid;
		uint64_t ns;
	} * threads;
	size_t n;
	uint64_t idle_ns; /* of all CPUs */
	uint64_t now_ns;
};

int load_cpu_read(const int *pids, unsigned int n, struct load_cpu *ret);
void load_cpu_free(struct load_cpu *c);
double load_cpu_watched(const struct load_cpu *from, const struct load_cpu *to);
double load_cpu_busy(const struct load_cpu *from, const struct load_cpu *to);

uint64_t load_now(void);

#endif /* KV_LOAD_H */

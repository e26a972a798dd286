/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv-traffic: requests of every shape to kv-engine's /tagged, through whatever is between, by many
 * connections that also give up, half-close, read slowly and come again from the same port. Every
 * byte of every answer is compared with the one that its tag and its place demand.
 */
#ifndef KV_TRAFFIC_H
#define KV_TRAFFIC_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "../common/answer.h"
#include "../common/tagged.h"

#define TRAFFIC_MAX_TARGETS 64
#define TRAFFIC_MAX_SOURCES 64
#define TRAFFIC_PIPELINE 4 /* requests on one connection at once */
#define TRAFFIC_STAGE 8192

struct traffic_range {
	uint64_t from, to;
};

struct traffic_options {
	struct sockaddr_storage targets[TRAFFIC_MAX_TARGETS];
	unsigned int n_targets;
	struct sockaddr_storage sources[TRAFFIC_MAX_SOURCES];
	unsigned int n_sources;
	struct traffic_range ports; /* of this side; 0: any */
	uint64_t requests;	    /* 0: no limit */
	double seconds;		    /* 0: no limit */
	unsigned int connections;
	uint64_t seed;
	struct traffic_range request_bytes, answer_bytes, delay_us, first_us;
	bool framings[TAGGED_FRAMINGS];
	unsigned int groups;
	double keep_alive; /* mean requests of a connection */
	double rate;	   /* requests per second in all, 0: as fast as it goes */
	double timeout;
	/* percent of requests; slow: of connections */
	double hinted, pipelined, aborted, half_closed, slow, early, twice;
	const char *path_prefix;
	bool json, verbose, expect_all;
};

int traffic_parse_options(int argc, char **argv, struct traffic_options *ret_options);

/* ---- what a request shall be (plan.c) ---------------------------------------- */

enum traffic_abort { NO_ABORT, ABORT_SENDING, ABORT_WAITING, ABORT_READING };

struct traffic_request {
	uint64_t tag;
	uint64_t body;	 /* bytes of its own */
	uint64_t answer; /* bytes of the answer's body, on the wire */
	uint64_t twice;
	struct tagged_sse what;
	enum tagged_framing framing;
	uint32_t delay_us, first_us, interims, group;
	bool hinted, chunked, completion, early, half_close;
	bool followed; /* by another one before its answer is whole */
	enum traffic_abort abort;
	bool abort_rst;
	uint64_t abort_at; /* bytes sent, microseconds of waiting, bytes of answer read */
	uint64_t start_ns, first_ns;
};

struct traffic_random {
	uint64_t state;
};

uint64_t traffic_random(struct traffic_random *r);
bool traffic_chance(struct traffic_random *r, double percent);
uint64_t traffic_between(struct traffic_random *r, struct traffic_range range);

void traffic_plan(const struct traffic_options *o, uint64_t index, struct traffic_request *ret);
int traffic_head(const struct traffic_options *o, const struct traffic_request *q, char *out,
		 size_t size);
/* Is it a tag of some kv-traffic? Then of which request. */
bool traffic_tag_read(uint64_t tag, uint32_t *ret_seed, uint32_t *ret_index);

/* ---- results (report.c) ------------------------------------------------------ */

struct traffic_result {
	uint64_t requests, ok, aborted, half_closed, broken, unanswered, truncated, hung,
		connect_failed, no_port, connections;
	uint64_t failed; /* requests whose answer was foreign or wrong */
	uint64_t refused[600];
	uint64_t foreign_bytes, wrong_bytes, engine_foreign;
	uint64_t bytes_sent, bytes_received; /* of bodies, answers' as on the wire */
	uint32_t *latency_us, *first_us;     /* of those that are ok */
	uint64_t n, room;
	double seconds;
	unsigned int explained;
};

int traffic_record(struct traffic_result *r, uint64_t latency_ns, uint64_t first_ns);
/* Sorts the latencies, prints one JSON object or a few lines; returns the exit code. */
int traffic_report(const struct traffic_options *o, struct traffic_result *r);

/* ---- connections ------------------------------------------------------------- */

struct traffic_run;

struct traffic_conn {
	struct traffic_run *run;
	TAILQ_ENTRY(traffic_conn) idle_link;
	unsigned int index;
	int fd;
	uint16_t port; /* of this side */
	bool connected, idle, slow;
	struct traffic_random random;
	uint64_t left; /* requests before it is closed */
	struct event rd, wr, timer, resume;
	struct traffic_request queue[TRAFFIC_PIPELINE];
	unsigned int first, n; /* under way */
	unsigned int n_sent;   /* of those */
	bool begun;	       /* the head of the next one is staged */
	bool tail;	       /* … its end too */
	bool answered;	       /* the first was, though it has not been sent */
	uint64_t body_at;      /* bytes of its body that are staged */
	uint64_t sent;	       /* its bytes that have gone */
	size_t stage_at, stage_len;
	char stage[TRAFFIC_STAGE];
	struct answer answer;
	uint64_t seen; /* bytes of the answer's body that were right */
};

TAILQ_HEAD(traffic_idle, traffic_conn);

struct traffic_run {
	const struct traffic_options *o;
	struct traffic_result *r;
	struct event_base *base;
	struct traffic_conn **conns;
	struct traffic_idle idle;
	struct event feed, tick, stop;
	bool stopped; /* by SIGTERM */
	uint64_t issued, start_ns;
	uint64_t next_ns;  /* when the rate allows the next request */
	unsigned int busy; /* connections with a request under way */
	char *buffer;
};

uint64_t traffic_now(void);
int traffic_run(const struct traffic_options *o, struct traffic_result *ret);

static inline struct traffic_request *traffic_at(struct traffic_conn *c, unsigned int i)
{
	return &c->queue[(c->first + i) % TRAFFIC_PIPELINE];
}

/* send.c: sends what the socket takes; -errno when the connection is broken */
int traffic_send(struct traffic_conn *c);

/* receive.c: checks these bytes; false when the connection has been closed */
bool traffic_receive(struct traffic_conn *c, const char *data, size_t len);
/* Says what the requests under way are, if that is asked for. */
void traffic_say(struct traffic_conn *c, const char *what);
void traffic_eof(struct traffic_conn *c, bool reset);

/* conn.c */
void traffic_conn_init(struct traffic_conn *c, struct traffic_run *run, unsigned int index,
		       uint64_t seed);
/* One more request on this connection. */
void traffic_issue(struct traffic_conn *c);
/* The first request of the queue is over. */
void traffic_pop(struct traffic_conn *c);
/* Closes; what was under way counts as *count. */
void traffic_close(struct traffic_conn *c, bool rst, uint64_t *count);
/* Nothing is under way: it waits for its next request. */
void traffic_rest(struct traffic_conn *c);
/* Closes, and no more. */
void traffic_shut(struct traffic_conn *c, bool rst);
void traffic_abort(struct traffic_conn *c);

/* run.c */
bool traffic_may_issue(const struct traffic_run *run);
/* Something may be issued now. */
void traffic_wake(struct traffic_run *run);

#endif /* KV_TRAFFIC_H */

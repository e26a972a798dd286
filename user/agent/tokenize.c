// SPDX-License-Identifier: BSD-2-Clause
/* Requests that wait to be asked about. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/follow.h"
#include "agent/head.h"
#include "agent/tokenize_private.h"
#include "common/log.h"
#include "engines/time.h"

#define JOBS_EACH 64
#define BYTES_ALL (32u << 20)
#define BODY_MAX (4u << 20)
#define DELAY_MS 200		/* the request itself goes first */
#define BLOCK_WAIT (5 * SECOND) /* for an engine's first events */
#define TIMEOUT_MS 10000
#define PAUSE (5 * SECOND)	 /* after a failure */
#define PAUSE_NONE (60 * SECOND) /* it has no such endpoint, or not for us */
/* A token is a byte of text or more; in the answer it is a number and a string. */
#define ANSWER_PER_BYTE 64
#define ANSWER_MAX (32u << 20)

static const char more_fields[] = ",\"return_token_strs\":true}";

void tokenize_job_free(struct tokenize_job *job)
{
	free(job->body);
	fetch_text_free(&job->answer);
	free(job);
}

static void drop(struct tokenize_queue *q, struct tokenize_job *job)
{
	TAILQ_REMOVE(&q->jobs, job, link);
	q->n--;
	q->z->bytes -= job->body_len;
}

static __u64 *seen_place(struct tokenizer *z, __u64 prompt)
{
	return &z->seen[prompt % (sizeof(z->seen) / sizeof(*z->seen))];
}

/* Nothing has come of it: it may be asked about again when the prompt comes again. */
static void give_up(struct tokenize_queue *q, struct tokenize_job *job)
{
	__u64 *place = seen_place(q->z, job->prompt);

	if (*place == job->prompt)
		*place = 0;
	drop(q, job);
	tokenize_job_free(job);
}

/* ---- asking -------------------------------------------------------------------------- */

static void ask_later(struct tokenize_queue *q)
{
	struct tokenize_job *job = TAILQ_FIRST(&q->jobs);
	__u64 now = kv_now_ns(), at;
	struct timeval wait;

	if (!job || q->fetch)
		return;
	at = job->created_ns + DELAY_MS * MS;
	at = at > q->not_before ? at : q->not_before;
	wait = ms_timeval(at > now ? (at - now) / MS + 1 : 0);
	evtimer_add(&q->timer, &wait);
}

static bool on_data(void *arg, const char *data, size_t n)
{
	struct tokenize_queue *q = arg;

	return fetch_text_add(&TAILQ_FIRST(&q->jobs)->answer, data, n);
}

static void complain(struct tokenize_queue *q, enum fetch_result result, int status)
{
	const char *name = q->z->told->agent->dp.backends[q->backend].name;
	int about = result == FETCH_ANSWERED ? FETCH_RESULTS + status : (int)result;

	if (!complaint_due(&q->complaint, about, kv_now_ns()))
		return;
	if (result == FETCH_ANSWERED)
		kv_warn("backend %s: /tokenize answers %d: what its events tell is not known of "
			"prompts given as text; what is learned of them serves",
			name, status);
	else
		kv_warn("backend %s: /tokenize: %s", name, fetch_result_text(result));
}

/* 400, 422: it did not like this one. */
static bool refuses_all(int status)
{
	return status == 401 || status == 403 || status == 404 || status == 405 || status == 501;
}

static void on_done(void *arg, enum fetch_result result, int status)
{
	struct tokenize_queue *q = arg;
	struct tokenize_job *job = TAILQ_FIRST(&q->jobs);
	struct agent *agent = q->z->told->agent;

	q->fetch = NULL;
	if (result == FETCH_ANSWERED && status == 200) {
		drop(q, job);
		if (complaint_over(&q->complaint, kv_now_ns()))
			kv_info("backend %s: /tokenize answers again",
				agent->dp.backends[q->backend].name);
		tokenize_answered(q->z, job);
		ask_later(q);
		return;
	}
	count(&agent->dp, tokenize_failed);
	if (result != FETCH_ANSWERED || status >= 500 || refuses_all(status)) {
		complain(q, result, status);
		q->not_before = kv_now_ns() + (refuses_all(status) ? PAUSE_NONE : PAUSE);
		give_up(q, job);
	} else {
		drop(q, job);
		tokenize_job_free(job);
	}
	ask_later(q);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct tokenize_queue *q = arg;
	struct tokenize_job *job = TAILQ_FIRST(&q->jobs);
	struct told *t = q->z->told;
	struct dataplane *dp = &t->agent->dp;

	(void)fd, (void)what;
	if (!job || q->fetch)
		return;
	job->block = told_block(t->agent, dp->backends[q->backend].service);
	if (!job->block) {
		if (kv_now_ns() - job->created_ns > BLOCK_WAIT) {
			give_up(q, job);
			count(dp, tokenize_dropped);
		}
		q->not_before = kv_now_ns() + SECOND;
		ask_later(q);
		return;
	}
	q->fetch = fetch_start(t->agent->base, &t->backends[q->backend].way.address,
			       &(struct fetch_request){
				       .path = "/tokenize",
				       .timeout_ms = TIMEOUT_MS,
				       .limit = job->body_len < ANSWER_MAX / ANSWER_PER_BYTE
							? ANSWER_PER_BYTE * job->body_len
							: ANSWER_MAX,
				       .body = job->body,
				       .body_len = job->body_len,
				       .data = on_data,
				       .done = on_done,
				       .arg = q,
			       });
	if (q->fetch) {
		count(dp, tokenize_asked);
		return;
	}
	give_up(q, job);
	count(dp, tokenize_dropped);
	ask_later(q);
}

/* ---- taking -------------------------------------------------------------------------- */

/* /tokenize takes the same fields as these two. */
static const char *path_of(const struct client *c)
{
	static const char *const paths[] = {"/chat/completions", "/completions"};
	const struct kv_request *head = &c->request->head;
	const char *target = c->in.data + head->target_off;
	size_t len = strcspn(target, "?# "), n;

	if (len > head->target_len)
		len = head->target_len;
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		n = strlen(paths[i]);
		if (len >= n && !memcmp(target + len - n, paths[i], n))
			return paths[i];
	}
	return NULL;
}

static __u64 hash_of(const struct kv_query *query)
{
	return query->rungs[query->n_rungs - 1].hash ^ query->total;
}

/* The body with one field more; NULL: no memory, or not a JSON object. */
static char *body_of(const struct client *c, size_t *ret_len)
{
	const struct request *r = c->request;
	size_t len = r->len - r->head.head_len;
	char *body = malloc(len + sizeof(more_fields));

	if (!body)
		return NULL;
	if (r->head.chunked)
		len = chunked_data(c->in.data + r->head.head_len, len, body);
	else
		memcpy(body, c->in.data + r->head.head_len, len);
	while (len && body[len - 1] != '}')
		len--;
	if (len < 3) {
		free(body);
		return NULL;
	}
	memcpy(body + len - 1, more_fields, sizeof(more_fields));
	*ret_len = len + sizeof(more_fields) - 2;
	return body;
}

void tokenize_take(struct client *c, __u32 backend)
{
	struct told *t = c->agent->telling;
	struct tokenizer *z = t ? t->tokenizer : NULL;
	const struct request *r = c->request;
	size_t len = r->len - r->head.head_len;
	struct tokenize_queue *q = z ? &z->queues[backend] : NULL;
	struct tokenize_job *job;
	const char *path;

	if (!z || !t->backends[backend].on || !r->dispatch.query.n_rungs)
		return;
	/* Token blocks know no tenants: texts tied to them would make one's prompts known to
	 * another tenant's. A salt keeps them apart in the engine as well. */
	if (kv_tenancy(&c->agent->names) && r->class != PROOF_SALTED)
		return;
	path = path_of(c);
	if (!path || *seen_place(z, hash_of(&r->dispatch.query)) == hash_of(&r->dispatch.query))
		return;
	job = q->n < JOBS_EACH && len <= BODY_MAX && z->bytes + len <= BYTES_ALL
		      ? calloc(1, sizeof(*job))
		      : NULL;
	if (job)
		job->body = body_of(c, &job->body_len);
	if (!job || !job->body) {
		free(job);
		count(&c->agent->dp, tokenize_dropped);
		return;
	}
	job->path = path;
	job->has_tenant = kv_tenancy(&c->agent->names);
	job->tenant = r->head.tenant;
	job->created_ns = kv_now_ns();
	job->prompt = hash_of(&r->dispatch.query);
	*seen_place(z, job->prompt) = job->prompt;
	TAILQ_INSERT_TAIL(&q->jobs, job, link);
	q->n++;
	z->bytes += job->body_len;
	if (q->n == 1)
		ask_later(q);
}

/* ---- beginning and end --------------------------------------------------------------- */

void tokenize_forget(struct tokenizer *z, __u32 backend)
{
	struct tokenize_queue *q = &z->queues[backend];
	struct tokenize_job *job;

	fetch_cancel(q->fetch);
	q->fetch = NULL;
	event_del(&q->timer);
	while ((job = TAILQ_FIRST(&q->jobs)))
		give_up(q, job);
	q->not_before = 0;
}

struct tokenizer *tokenizer_new(struct told *t)
{
	struct tokenizer *z = calloc(1, sizeof(*z));
	sigset_t all, before;

	if (!z)
		return NULL;
	z->told = t;
	TAILQ_INIT(&z->answered);
	pthread_mutex_init(&z->mutex, NULL);
	pthread_cond_init(&z->more, NULL);
	for (__u32 id = 0; id < KV_MAX_BACKENDS; id++) {
		struct tokenize_queue *q = &z->queues[id];

		q->z = z;
		q->backend = id;
		TAILQ_INIT(&q->jobs);
		evtimer_assign(&q->timer, t->agent->base, on_timer, q);
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	z->running = !pthread_create(&z->thread, NULL, tokenize_thread, z);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (z->running)
		return z;
	tokenizer_free(z);
	return NULL;
}

void tokenizer_free(struct tokenizer *z)
{
	struct tokenize_job *job;

	if (!z)
		return;
	for (__u32 id = 0; id < KV_MAX_BACKENDS; id++)
		tokenize_forget(z, id);
	if (z->running) {
		pthread_mutex_lock(&z->mutex);
		z->stop = true;
		pthread_cond_signal(&z->more);
		pthread_mutex_unlock(&z->mutex);
		pthread_join(z->thread, NULL);
	}
	while ((job = TAILQ_FIRST(&z->answered))) {
		TAILQ_REMOVE(&z->answered, job, link);
		tokenize_job_free(job);
	}
	pthread_cond_destroy(&z->more);
	pthread_mutex_destroy(&z->mutex);
	free(z);
}

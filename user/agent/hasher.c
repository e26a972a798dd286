// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/address.h"
#include "agent/head.h"
#include "agent/hasher.h"
#include "agent/request.h"
#include "agent/told.h"
#include "common/cleanup.h"
#include "common/log.h"

#define HASHER_FROM (128u << 10) /* bytes of a body: handing over costs less than hashing */
#define HASHER_WAIT SECOND	 /* for the thread to begin */
#define PATH_SIZE 512

/* What is to be hashed, and what came of it. */
struct work {
	char path[PATH_SIZE];
	const char *body;
	size_t len;
	bool chunked;
	struct kvsteer_options options;
	bool hinted; /* only what else it says */
	struct kvsteer_prompt prompt;
	struct kv_facts facts;
	int err;
};

struct hasher_job {
	TAILQ_ENTRY(hasher_job) link;
	struct work work;
	bool begun;	       /* by the thread */
	struct client *client; /* NULL: gone, and its buffer is here */
	struct buffer buffer;
};

TAILQ_HEAD(job_list, hasher_job);

struct hasher {
	struct agent *agent;
	pthread_t thread;
	pthread_mutex_t mutex; /* for all that follows */
	pthread_cond_t more;
	struct job_list waiting;
	struct job_list done;
	bool stop;
	int event_fd; /* something is done */
	struct event event;
};

static void work_make(const struct client *c, struct work *work)
{
	const struct request *r = c->request;
	size_t len = r->head.target_len < PATH_SIZE ? r->head.target_len : PATH_SIZE - 1;

	memcpy(work->path, c->in.data + r->head.target_off, len);
	work->path[len] = 0;
	work->body = c->in.data + r->head.head_len;
	work->len = r->len - r->head.head_len;
	work->chunked = r->head.chunked;
	work->options = (struct kvsteer_options){.block = told_block(c->agent, c->service)};
}

/* In the thread, or in the loop. */
static void work_do(struct work *work)
{
	_cleanup_free_ char *decoded = NULL;
	const char *body = work->body;
	size_t len = work->len;

	if (work->chunked) {
		decoded = malloc(len);
		if (!decoded) {
			work->prompt.reason = "out of memory";
			work->err = -ENOMEM;
			return;
		}
		len = chunked_data(body, len, decoded);
		body = decoded;
	}
	if (work->hinted)
		kv_body_facts(body, len, &work->facts);
	else
		work->err =
			kv_body(work->path, body, len, &work->options, &work->prompt, &work->facts);
}

static int work_result(const struct work *work, struct kvsteer_prompt *ret,
		       struct kv_facts *ret_facts)
{
	if (work->err)
		kv_debug("%s: body without a readable prompt: %s", work->path, work->prompt.reason);
	*ret = work->prompt;
	*ret_facts = work->facts;
	return work->err;
}

int hasher_prompt(const struct client *c, struct kvsteer_prompt *ret, struct kv_facts *ret_facts)
{
	struct work work = {};

	work_make(c, &work);
	work_do(&work);
	return work_result(&work, ret, ret_facts);
}

void hasher_facts(const struct client *c, struct kv_facts *ret)
{
	struct work work = {.hinted = true};

	work_make(c, &work);
	work_do(&work);
	*ret = work.facts;
}

/* ---- the thread ---------------------------------------------------------------------- */

static void *run(void *arg)
{
	struct hasher *h = arg;
	struct hasher_job *job;

	pthread_mutex_lock(&h->mutex);
	for (;;) {
		while (!h->stop && !(job = TAILQ_FIRST(&h->waiting)))
			pthread_cond_wait(&h->more, &h->mutex);
		if (h->stop)
			break;
		TAILQ_REMOVE(&h->waiting, job, link);
		job->begun = true;
		pthread_mutex_unlock(&h->mutex);
		work_do(&job->work);
		pthread_mutex_lock(&h->mutex);
		TAILQ_INSERT_TAIL(&h->done, job, link);
		eventfd_write(h->event_fd, 1);
	}
	pthread_mutex_unlock(&h->mutex);
	return NULL;
}

/* ---- the loop ------------------------------------------------------------------------ */

static void job_free(struct hasher *h, struct hasher_job *job)
{
	buffer_free(&job->buffer, &h->agent->memory);
	free(job);
}

static void on_done(evutil_socket_t fd, short what, void *arg)
{
	struct job_list done = TAILQ_HEAD_INITIALIZER(done);
	struct kvsteer_prompt prompt;
	struct kv_facts facts;
	struct hasher *h = arg;
	struct hasher_job *job;
	eventfd_t times;
	int err;

	(void)what;
	eventfd_read(fd, &times);
	for (;;) {
		struct client *c;

		/* One by one: what follows may give up another one. */
		pthread_mutex_lock(&h->mutex);
		job = TAILQ_FIRST(&h->done);
		if (job)
			TAILQ_REMOVE(&h->done, job, link);
		pthread_mutex_unlock(&h->mutex);
		if (!job)
			return;
		c = job->client;
		if (c) {
			c->request->job = NULL;
			err = work_result(&job->work, &prompt, &facts);
			request_hashed(c, err, &prompt, &facts);
		}
		job_free(h, job);
	}
}

static void hasher_free(struct hasher *h)
{
	if (h->event_fd >= 0)
		close(h->event_fd);
	pthread_cond_destroy(&h->more);
	pthread_mutex_destroy(&h->mutex);
	free(h);
}

/* Started when the first large body comes: with no more rights than the agent has by then. */
static struct hasher *hasher_start(struct agent *agent)
{
	struct hasher *h = calloc(1, sizeof(*h));
	sigset_t all, before;
	int err;

	if (!h)
		return NULL;
	h->agent = agent;
	TAILQ_INIT(&h->waiting);
	TAILQ_INIT(&h->done);
	pthread_mutex_init(&h->mutex, NULL);
	pthread_cond_init(&h->more, NULL);
	h->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = h->event_fd < 0 ? errno : pthread_create(&h->thread, NULL, run, h);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		kv_warn("cannot start a thread: %s: large bodies are hashed in the loop",
			strerror(err));
		hasher_free(h);
		return NULL;
	}
	event_assign(&h->event, agent->base, h->event_fd, EV_READ | EV_PERSIST, on_done, h);
	event_add(&h->event, NULL);
	return h;
}

bool hasher_take(struct client *c)
{
	struct agent *agent = c->agent;
	struct hasher_job *job;
	struct hasher *h;

	if (c->request->len - c->request->head.head_len < HASHER_FROM)
		return false;
	if (!agent->hasher)
		agent->hasher = hasher_start(agent);
	h = agent->hasher;
	job = h ? calloc(1, sizeof(*job)) : NULL;
	if (!job)
		return false;
	job->client = c;
	work_make(c, &job->work);
	c->request->job = job;
	client_set_phase(c, CLIENT_HASHING);
	c->deadline_ns = c->last_ns + HASHER_WAIT;
	client_watch(c, true);
	pthread_mutex_lock(&h->mutex);
	TAILQ_INSERT_TAIL(&h->waiting, job, link);
	pthread_cond_signal(&h->more);
	pthread_mutex_unlock(&h->mutex);
	return true;
}

/* Takes back what the thread has not begun. */
static bool hasher_withdraw(struct client *c)
{
	struct hasher_job *job = c->request->job;
	struct hasher *h = c->agent->hasher;
	bool begun;

	pthread_mutex_lock(&h->mutex);
	begun = job->begun;
	if (!begun)
		TAILQ_REMOVE(&h->waiting, job, link);
	pthread_mutex_unlock(&h->mutex);
	if (begun)
		return false;
	job_free(h, job);
	c->request->job = NULL;
	return true;
}

void hasher_drop(struct client *c)
{
	struct request *r = c->request;
	struct hasher_job *job = r ? r->job : NULL;

	if (!job || hasher_withdraw(c))
		return;
	job->client = NULL;
	buffer_move(&job->buffer, &c->agent->memory, &c->in, &c->address->memory);
	r->job = NULL;
	r->len = 0;
}

void hasher_hurry(struct client *c)
{
	struct kvsteer_prompt none = {};
	struct kv_facts no_facts = {};

	c->deadline_ns = 0;
	if (hasher_withdraw(c)) {
		kv_debug("too many large bodies: one is not hashed");
		request_hashed(c, -EAGAIN, &none, &no_facts);
	}
}

void hasher_close(struct agent *agent)
{
	struct hasher *h = agent->hasher;
	struct hasher_job *job;

	if (!h)
		return;
	pthread_mutex_lock(&h->mutex);
	h->stop = true;
	pthread_cond_signal(&h->more);
	pthread_mutex_unlock(&h->mutex);
	pthread_join(h->thread, NULL);
	TAILQ_CONCAT(&h->done, &h->waiting, link);
	while ((job = TAILQ_FIRST(&h->done))) {
		TAILQ_REMOVE(&h->done, job, link);
		job_free(h, job);
	}
	event_del(&h->event);
	hasher_free(h);
	agent->hasher = NULL;
}

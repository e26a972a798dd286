// SPDX-License-Identifier: BSD-2-Clause
/* The thread, its sockets, and who is followed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "events/follow_private.h"

#define INDEX_BLOCKS 256
#define SHOW_NS 100000000ull
#define IDLE_MS 100
#define SLICE_NS 300000
/* Subscriber, both ends of its monitor, replay. libzmq's own bound is 1,023 in all. */
#define SOCKETS_EACH 4

/* ---- sources ------------------------------------------------------------------------- */

static void source_free(struct source *s)
{
	if (!s)
		return;
	kv_sequence_exit(&s->sequence);
	source_drop_work(s);
	kv_decode_free(s->decode);
	if (s->replay)
		zmq_close(s->replay);
	if (s->monitor) {
		zmq_socket_monitor(s->feed->sub, NULL, 0);
		zmq_close(s->monitor);
	}
	if (s->feed)
		feed_leave(s);
	if (s->id >= 0)
		kv_index_remove(s->follow->index, s->id);
	free(s->name);
	free(s->pod);
	free(s->replay_endpoint);
	free(s);
}

static char *copy(const char *text)
{
	return text ? strdup(text) : NULL;
}

/* A replay endpoint is first connected to when a replay is needed: too late to say it is none. */
static int check_replay(struct kv_follow *f, const char *endpoint)
{
	void *socket;
	int err;

	if (!endpoint)
		return 0;
	socket = feed_socket(f, ZMQ_DEALER, f->limits.replay_queue);
	if (!socket)
		return -errno;
	err = zmq_connect(socket, endpoint) ? -errno : 0;
	zmq_close(socket);
	return err;
}

static int source_new(struct kv_follow *f, const struct kv_follow_source *config,
		      struct source **ret)
{
	struct kv_sequence_limits limits = f->limits.sequence;
	struct source *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	limits.replay = config->replay != NULL;
	limits.first = config->first;
	s->follow = f;
	s->id = -1;
	s->rank = config->engine.rank;
	STAILQ_INIT(&s->tasks);
	kv_sequence_init(&s->sequence, &limits, &source_ops, s);
	s->name = copy(config->name);
	s->pod = copy(config->pod);
	s->replay_endpoint = copy(config->replay);
	s->decode = kv_decode_new();
	err = s->name && s->decode ? check_replay(f, config->replay) : -ENOMEM;
	if (!err)
		err = feed_join(s, config);
	s->down_ns = config->bind ? 0 : kv_now_ns();
	if (!err && !config->bind && !config->polled) {
		s->monitor = feed_monitor(f, s->feed->sub);
		/* Connected once it is watched. */
		if (!s->monitor || zmq_connect(s->feed->sub, config->endpoint))
			err = -errno;
	}
	if (!err) {
		s->id = kv_index_add(f->index, &config->engine);
		err = s->id < 0 ? s->id : 0;
	}
	if (err) {
		source_free(s);
		return err;
	}
	/* Whoever connects to us may have been at work for long. */
	if (config->bind)
		kv_sequence_connected(&s->sequence, kv_now_ns());
	*ret = s;
	return 0;
}

static struct source *source_find(struct kv_follow *f, const char *name)
{
	struct source *s;

	TAILQ_FOREACH (s, &f->sources, link)
		if (!strcmp(s->name, name))
			return s;
	return NULL;
}

void follow_say(struct kv_follow *f, uint64_t *said_ns, const char *source, enum kv_problem what,
		const char *text)
{
	uint64_t now = kv_now_ns();

	if (!f->problem || (*said_ns && now - *said_ns < f->limits.problem_ns))
		return;
	*said_ns = now;
	f->problem(f->ctx, source, what, text);
}

/* ---- the thread ---------------------------------------------------------------------- */

void follow_show(struct kv_follow *f)
{
	struct source *s;

	pthread_mutex_lock(&f->lock);
	TAILQ_FOREACH (s, &f->sources, link)
		source_show(s);
	f->bytes = kv_index_bytes(f->index);
	f->entries = kv_index_entries(f->index);
	f->shown_strangers = f->strangers;
	pthread_mutex_unlock(&f->lock);
}

int source_add(struct kv_follow *f, const struct kv_follow_source *config)
{
	struct source *s = source_find(f, config->name);
	int err = s ? -EEXIST : source_new(f, config, &s);

	if (err)
		return err;
	pthread_mutex_lock(&f->lock);
	TAILQ_INSERT_TAIL(&f->sources, s, link);
	pthread_mutex_unlock(&f->lock);
	return 0;
}

void source_remove(struct kv_follow *f, const char *name)
{
	struct source *s = source_find(f, name);

	if (!s)
		return;
	pthread_mutex_lock(&f->lock);
	TAILQ_REMOVE(&f->sources, s, link);
	if (f->asked == s)
		f->asked = NULL;
	pthread_mutex_unlock(&f->lock);
	source_free(s);
}

static void wait_for(struct kv_follow *f, bool busy, uint64_t until)
{
	uint64_t now = kv_now_ns(), count;
	long ms = busy || until <= now ? 0 : IDLE_MS;
	struct source *s;
	struct feed *feed;
	size_t n = 1, max = 1;
	zmq_pollitem_t *items;

	LIST_FOREACH(feed, &f->feeds, link)
	max++;
	TAILQ_FOREACH (s, &f->sources, link)
		max += 2;
	items = alloca(max * sizeof(*items));
	items[0] = (zmq_pollitem_t){.fd = f->wake, .events = ZMQ_POLLIN};
	LIST_FOREACH(feed, &f->feeds, link)
	if (feed->sub && !feed_busy(feed))
		items[n++] = (zmq_pollitem_t){.socket = feed->sub, .events = ZMQ_POLLIN};
	else if (feed->waiting && !feed_busy(feed))
		ms = 0;
	TAILQ_FOREACH (s, &f->sources, link) {
		if (s->monitor)
			items[n++] = (zmq_pollitem_t){.socket = s->monitor, .events = ZMQ_POLLIN};
		if (s->replay && STAILQ_EMPTY(&s->tasks))
			items[n++] = (zmq_pollitem_t){.socket = s->replay, .events = ZMQ_POLLIN};
	}
	if (ms && until != UINT64_MAX && (until - now) / 1000000 < IDLE_MS)
		ms = (until - now) / 1000000 + 1;
	if (zmq_poll(items, n, ms) > 0 && items[0].revents & ZMQ_POLLIN &&
	    read(f->wake, &count, sizeof(count)) < 0)
		count = 0; /* another has read it */
}

/* One turn for everybody. True: there is more to do. */
static bool turn(struct kv_follow *f, uint64_t *ret_until)
{
	bool more = false;
	uint64_t now, at;
	kv_turn_fn *end;
	struct feed *feed;
	struct source *s;

	LIST_FOREACH(feed, &f->feeds, link)
	if (!feed_busy(feed))
		feed_receive(f, feed);
	now = kv_now_ns();
	*ret_until = UINT64_MAX;
	TAILQ_FOREACH (s, &f->sources, link) {
		source_monitor(s);
		source_reconnect(s, now);
		if (s->replay && STAILQ_EMPTY(&s->tasks))
			source_replay(s);
		more |= source_work(s);
		at = kv_sequence_tick(&s->sequence, now);
		*ret_until = at < *ret_until ? at : *ret_until;
	}
	if (!kv_index_work(f->index, INDEX_BLOCKS))
		more = true;
	end = __atomic_load_n(&f->turn, __ATOMIC_ACQUIRE);
	if (end)
		end(f->ctx, f->index);
	return more;
}

/* A short slice: woken by a message it runs soon, also where others keep the CPUs busy, and gets no
 * more time than they. libzmq's own thread begins with this one's first socket and has it, too.
 * Needs no privilege; before Linux 6.12 nothing comes of it. */
static void hurry(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {
		.size = sizeof(attr),
		.policy = SCHED_OTHER,
		.nice = getpriority(PRIO_PROCESS, 0),
		.runtime = SLICE_NS,
	};

	syscall(SYS_sched_setattr, 0, &attr, 0);
}

static void *work(void *arg)
{
	struct kv_follow *f = arg;
	uint64_t until = UINT64_MAX, shown = 0;
	bool busy = false;

	hurry();
	while (!__atomic_load_n(&f->stop, __ATOMIC_ACQUIRE)) {
		wait_for(f, busy, until);
		busy = follow_obey(f);
		/* Those whose source is about to be added can wait. */
		if (!busy)
			follow_sort_polled(f);
		if (kv_now_ns() - shown > SHOW_NS) {
			follow_show(f);
			shown = kv_now_ns();
		}
		busy |= turn(f, &until);
	}
	return NULL;
}

void kv_follow_wake(struct kv_follow *f)
{
	uint64_t one = 1;

	if (write(f->wake, &one, sizeof(one)) < 0)
		return; /* it is awake, or polls within IDLE_MS */
}

/* ---- for others ---------------------------------------------------------------------- */

struct kv_follow *kv_follow_new(const struct kv_follow_limits *limits,
				const struct kv_index_sink *sink, kv_problem_fn *problem, void *ctx)
{
	struct kv_follow *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->limits = *limits;
	f->problem = problem;
	f->ctx = ctx;
	TAILQ_INIT(&f->sources);
	TAILQ_INIT(&f->commands);
	TAILQ_INIT(&f->failed);
	STAILQ_INIT(&f->polled);
	LIST_INIT(&f->feeds);
	pthread_mutex_init(&f->lock, NULL);
	f->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->zmq = zmq_ctx_new();
	if (f->zmq)
		zmq_ctx_set(f->zmq, ZMQ_MAX_SOCKETS, SOCKETS_EACH * KV_INDEX_ENGINES);
	f->index = kv_index_new(&limits->index, sink, ctx);
	if (f->wake >= 0 && f->zmq && f->index && !pthread_create(&f->thread, NULL, work, f)) {
		f->running = true;
		return f;
	}
	kv_follow_free(f);
	return NULL;
}

void kv_follow_on_turn(struct kv_follow *f, kv_turn_fn *turn)
{
	__atomic_store_n(&f->turn, turn, __ATOMIC_RELEASE);
}

static void free_commands(struct commands *commands)
{
	struct command *c;

	while ((c = TAILQ_FIRST(commands))) {
		TAILQ_REMOVE(commands, c, link);
		command_free(c);
	}
}

void kv_follow_free(struct kv_follow *f)
{
	struct source *s;

	if (!f)
		return;
	if (f->running) {
		__atomic_store_n(&f->stop, true, __ATOMIC_RELEASE);
		kv_follow_wake(f);
		pthread_join(f->thread, NULL);
	}
	while ((s = TAILQ_FIRST(&f->sources))) {
		TAILQ_REMOVE(&f->sources, s, link);
		source_free(s);
	}
	free_commands(&f->commands);
	free_commands(&f->failed);
	polled_drop(&f->polled);
	if (f->zmq)
		zmq_ctx_term(f->zmq);
	kv_index_free(f->index);
	if (f->wake >= 0)
		close(f->wake);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* They are asked for one after the other, in the order they were added in: so mostly it is the
 * next one. Under the lock. */
static struct source *ask(struct kv_follow *f, const char *name)
{
	struct source *next = f->asked ? TAILQ_NEXT(f->asked, link) : NULL;

	f->asked = next && !strcmp(next->name, name) ? next : source_find(f, name);
	return f->asked;
}

int kv_follow_stats(struct kv_follow *f, const char *name, struct kv_follow_stats *ret)
{
	struct source *s;
	int state;

	pthread_mutex_lock(&f->lock);
	state = command_pending(f, name);
	s = state ? NULL : ask(f, name);
	if (s)
		*ret = s->shown;
	else if (!state)
		state = command_failed(f, name);
	pthread_mutex_unlock(&f->lock);
	return state;
}

void kv_follow_totals(struct kv_follow *f, uint64_t *ret_bytes, uint32_t *ret_entries,
		      uint64_t *ret_strangers)
{
	pthread_mutex_lock(&f->lock);
	*ret_bytes = f->bytes;
	*ret_entries = f->entries;
	*ret_strangers = f->shown_strangers;
	pthread_mutex_unlock(&f->lock);
}

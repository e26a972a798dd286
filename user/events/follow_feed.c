// SPDX-License-Identifier: BSD-2-Clause
/* Sockets that events come in by. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events/follow_private.h"

#define LIVE_MESSAGES 64 /* per turn of a socket */
#define LIVE_BYTES 262144
#define RECONNECT_MS 100
#define RECONNECT_MAX_MS 5000
#define CONNECT_MS 5000
#define HANDSHAKE_MS 2000

int feed_set(void *socket, int option, int value)
{
	return zmq_setsockopt(socket, option, &value, sizeof(value)) ? -errno : 0;
}

void *feed_socket(struct kv_follow *f, int type, int queue)
{
	int64_t most = f->limits.message_bytes;
	void *socket = zmq_socket(f->zmq, type);

	if (!socket)
		return NULL;
	feed_set(socket, ZMQ_LINGER, 0);
	feed_set(socket, ZMQ_IPV6, 1);
	feed_set(socket, ZMQ_RCVHWM, queue);
	zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof(most));
	return socket;
}

static void *subscriber(struct kv_follow *f, const char *topic)
{
	const struct {
		int option, value;
	} options[] = {
		{ZMQ_RECONNECT_IVL, RECONNECT_MS},
		{ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS},
		{ZMQ_CONNECT_TIMEOUT, CONNECT_MS},
		{ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS},
		/* A publisher that vanished without a word is noticed within a minute or two. */
		{ZMQ_TCP_KEEPALIVE, 1},
		{ZMQ_TCP_KEEPALIVE_IDLE, 30},
		{ZMQ_TCP_KEEPALIVE_INTVL, 10},
		{ZMQ_TCP_KEEPALIVE_CNT, 3},
	};
	void *sub = feed_socket(f, ZMQ_SUB, f->limits.queue);

	if (!sub)
		return NULL;
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		feed_set(sub, options[i].option, options[i].value);
	zmq_setsockopt(sub, ZMQ_SUBSCRIBE, topic ? topic : "", topic ? strlen(topic) : 0);
	return sub;
}

void *feed_monitor(struct kv_follow *f, void *sub)
{
	static unsigned int number;
	char name[64];
	void *pair;

	snprintf(name, sizeof(name), "inproc://monitor-%u",
		 __atomic_fetch_add(&number, 1, __ATOMIC_RELAXED));
	if (zmq_socket_monitor(sub, name,
			       ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
				       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
				       ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
				       ZMQ_EVENT_HANDSHAKE_FAILED_AUTH))
		return NULL;
	pair = zmq_socket(f->zmq, ZMQ_PAIR);
	if (pair && !feed_set(pair, ZMQ_LINGER, 0) && !zmq_connect(pair, name))
		return pair;
	if (pair)
		zmq_close(pair);
	return NULL;
}

void feed_leave(struct source *s)
{
	struct feed *feed = s->feed;

	TAILQ_REMOVE(&feed->sources, s, feed_link);
	if (!TAILQ_EMPTY(&feed->sources))
		return;
	LIST_REMOVE(feed, link);
	polled_drop(&feed->inbox);
	if (feed->sub)
		zmq_close(feed->sub);
	free(feed->endpoint);
	free(feed);
}

/* The one that it shares with others. */
static struct feed *shared(struct kv_follow *f, const struct kv_follow_source *config)
{
	struct feed *feed;

	LIST_FOREACH(feed, &f->feeds, link)
	if ((config->bind && feed->bind) || (config->polled && feed->polled))
		if (!strcmp(feed->endpoint, config->endpoint))
			return feed;
	return NULL;
}

static struct feed *feed_new(struct kv_follow *f, const struct kv_follow_source *config)
{
	struct feed *feed = calloc(1, sizeof(*feed));

	if (!feed)
		return NULL;
	TAILQ_INIT(&feed->sources);
	LIST_INSERT_HEAD(&f->feeds, feed, link);
	STAILQ_INIT(&feed->inbox);
	feed->bind = config->bind;
	feed->polled = config->polled;
	feed->endpoint = strdup(config->endpoint);
	if (!feed->polled)
		feed->sub = subscriber(f, config->topic);
	return feed;
}

int feed_join(struct source *s, const struct kv_follow_source *config)
{
	struct feed *feed = shared(s->follow, config);
	bool new = !feed;

	if (new)
		feed = feed_new(s->follow, config);
	if (!feed)
		return -ENOMEM;
	s->feed = feed;
	TAILQ_INSERT_TAIL(&feed->sources, s, feed_link);
	if (!feed->sub && !feed->polled)
		return -errno;
	if (!feed->endpoint)
		return -ENOMEM;
	if (new && feed->bind && zmq_bind(feed->sub, feed->endpoint))
		return -errno;
	return 0;
}

/* kv@POD@MODEL; the model's name may hold an @. Any other topic is the pod. */
static bool topic_is(zmq_msg_t *topic, const char *pod)
{
	const char *p = zmq_msg_data(topic), *end = p + zmq_msg_size(topic), *at;

	if (end - p > 3 && !memcmp(p, "kv@", 3)) {
		at = memchr(p + 3, '@', end - p - 3);
		if (at) {
			p += 3;
			end = at;
		}
	}
	return (size_t)(end - p) == strlen(pod) && !memcmp(p, pod, end - p);
}

static struct source *whose(struct feed *feed, struct frames *m)
{
	struct source *s;

	TAILQ_FOREACH (s, &feed->sources, feed_link)
		if (!s->pod || topic_is(&m->part[0], s->pod))
			return s;
	return NULL;
}

void feed_receive(struct kv_follow *f, struct feed *feed)
{
	struct frames m;
	size_t bytes = 0;

	if (feed->polled) {
		feed_receive_polled(f, feed, LIVE_MESSAGES, LIVE_BYTES);
		return;
	}
	for (int i = 0; i < LIVE_MESSAGES && bytes < LIVE_BYTES; i++) {
		struct source *s;
		uint64_t seq;

		if (frames_receive(feed->sub, &m) <= 0)
			break;
		bytes += zmq_msg_size(&m.part[m.n - 1]);
		s = whose(feed, &m);
		if (!s) {
			f->strangers++;
			follow_say(f, &f->stranger_said_ns, NULL, KV_PROBLEM_STRANGER,
				   "events with a topic that names no engine of the configuration");
		} else if (m.n != 3 || !frames_seq(&m, &seq) || !zmq_msg_size(&m.part[2])) {
			s->stats.bad_frames++;
			source_say(s, KV_PROBLEM_FRAMES,
				   "a message is not made of topic, number and payload");
		} else {
			source_live(s, seq, &m.part[2]);
		}
		frames_close(&m);
	}
}

bool feed_busy(struct feed *feed)
{
	struct source *s;

	TAILQ_FOREACH (s, &feed->sources, feed_link)
		if (!STAILQ_EMPTY(&s->tasks))
			return true;
	return false;
}

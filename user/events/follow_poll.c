// SPDX-License-Identifier: BSD-2-Clause
/* Engines that have to be asked for their events: others ask, and leave the answers here. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "events/follow_private.h"

static int leave(struct kv_follow *f, const char *endpoint, enum polled_kind kind, char *text,
		 size_t len)
{
	struct polled *p = calloc(1, sizeof(*p));
	char *copy = strdup(endpoint);

	if (!p || !copy) {
		free(p);
		free(copy);
		free(text);
		return -ENOMEM;
	}
	*p = (struct polled){.kind = kind, .endpoint = copy, .text = text, .len = len};
	pthread_mutex_lock(&f->lock);
	STAILQ_INSERT_TAIL(&f->polled, p, link);
	pthread_mutex_unlock(&f->lock);
	kv_follow_wake(f);
	return 0;
}

int kv_follow_polled(struct kv_follow *f, const char *endpoint, char *text, size_t len)
{
	return leave(f, endpoint, POLLED_EVENT, text, len);
}

int kv_follow_answers(struct kv_follow *f, const char *endpoint, bool it_does)
{
	return leave(f, endpoint, it_does ? POLLED_UP : POLLED_DOWN, NULL, 0);
}

static struct feed *feed_of(struct kv_follow *f, const char *endpoint)
{
	struct feed *feed;

	LIST_FOREACH(feed, &f->feeds, link)
	if (feed->polled && !strcmp(feed->endpoint, endpoint))
		return feed;
	return NULL;
}

bool kv_follow_behind(struct kv_follow *f, const char *endpoint)
{
	struct polled *p;
	struct source *s;
	bool behind = false;

	pthread_mutex_lock(&f->lock);
	STAILQ_FOREACH(p, &f->polled, link)
	behind |= !strcmp(p->endpoint, endpoint);
	TAILQ_FOREACH (s, &f->sources, link)
		behind |=
			s->feed->polled && s->feed->waiting && !strcmp(s->feed->endpoint, endpoint);
	pthread_mutex_unlock(&f->lock);
	return behind;
}

static void polled_free(struct polled *p)
{
	free(p->endpoint);
	free(p->text);
	free(p);
}

void polled_drop(struct polled_list *list)
{
	struct polled *p;

	while ((p = STAILQ_FIRST(list))) {
		STAILQ_REMOVE_HEAD(list, link);
		polled_free(p);
	}
}

static void connected(struct feed *feed, bool is)
{
	struct source *s;

	TAILQ_FOREACH (s, &feed->sources, feed_link) {
		if (is == !s->down_ns)
			continue;
		s->down_ns = is ? 0 : kv_now_ns();
		s->stats.connects += is;
		s->stats.disconnects += !is;
	}
}

/* The feeds' own, from here on; that of nobody is gone. */
void follow_sort_polled(struct kv_follow *f)
{
	struct polled_list list;
	struct polled *p;
	struct feed *feed;

	STAILQ_INIT(&list);
	pthread_mutex_lock(&f->lock);
	STAILQ_CONCAT(&list, &f->polled);
	while ((p = STAILQ_FIRST(&list))) {
		STAILQ_REMOVE_HEAD(&list, link);
		feed = feed_of(f, p->endpoint);
		if (feed && p->kind == POLLED_EVENT) {
			STAILQ_INSERT_TAIL(&feed->inbox, p, link);
			feed->waiting = true;
			continue;
		}
		if (feed)
			connected(feed, p->kind == POLLED_UP);
		polled_free(p);
	}
	pthread_mutex_unlock(&f->lock);
}

static void free_text(void *text, void *hint)
{
	(void)hint;
	free(text);
}

static void hand_over(struct kv_follow *f, struct feed *feed, struct polled *p)
{
	struct source *s;
	zmq_msg_t payload;
	uint64_t number;
	uint32_t rank;

	if (kv_polled_head(p->text, p->len, &number, &rank)) {
		s = TAILQ_FIRST(&feed->sources);
		s->stats.bad_frames++;
		source_say(s, KV_PROBLEM_FRAMES, "an event has no number: is it TensorRT-LLM?");
		return;
	}
	TAILQ_FOREACH (s, &feed->sources, feed_link)
		if (s->rank == rank)
			break;
	if (!s) {
		f->strangers++;
		follow_say(f, &f->stranger_said_ns, NULL, KV_PROBLEM_STRANGER,
			   "events of a rank that the configuration does not have: events.ranks");
		return;
	}
	if (zmq_msg_init_data(&payload, p->text, p->len, free_text, NULL))
		return; /* a gap */
	p->text = NULL;
	source_live(s, number, &payload);
	zmq_msg_close(&payload);
}

void feed_receive_polled(struct kv_follow *f, struct feed *feed, int most, size_t most_bytes)
{
	struct polled *p;
	size_t bytes = 0;

	for (int i = 0; i < most && bytes < most_bytes && (p = STAILQ_FIRST(&feed->inbox)); i++) {
		STAILQ_REMOVE_HEAD(&feed->inbox, link);
		bytes += p->len;
		hand_over(f, feed, p);
		polled_free(p);
	}
	if (!STAILQ_EMPTY(&feed->inbox) || !feed->waiting)
		return;
	pthread_mutex_lock(&f->lock);
	feed->waiting = false;
	pthread_mutex_unlock(&f->lock);
}

// SPDX-License-Identifier: BSD-2-Clause
/* The follower, and its sources: one per rank of an engine. */
#include "agent/told_private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/tokenize.h"
#include "common/log.h"

void told_source_name(const struct told_backend *b, __u32 rank, char name[TOLD_SOURCE_LEN])
{
	if (b->way.events.ranks > 1)
		snprintf(name, TOLD_SOURCE_LEN, "%s/%u", b->name, rank);
	else
		snprintf(name, TOLD_SOURCE_LEN, "%s", b->name);
}

/* Of an engine that is asked, all ranks have one. */
static void endpoint(const struct told_way *way, __u16 port, __u32 rank,
		     char text[TOLD_ENDPOINT_LEN])
{
	struct kv_addr at = way->address;
	char address[KV_ADDR_TEXT];

	if (way->events.poll) {
		snprintf(text, TOLD_ENDPOINT_LEN, "http://%s%s",
			 kv_addr_format(&at, address, sizeof(address)), way->events.bind);
		return;
	}
	at.port = htons(port + rank);
	snprintf(text, TOLD_ENDPOINT_LEN, "tcp://%s",
		 kv_addr_format(&at, address, sizeof(address)));
}

int told_source_add(struct told *t, __u32 id, __u32 rank, const char *model)
{
	struct told_backend *b = &t->backends[id];
	const struct told_way *way = &b->way;
	char name[TOLD_SOURCE_LEN], from[TOLD_ENDPOINT_LEN], replay[TOLD_ENDPOINT_LEN];
	bool bind = !way->port && !way->events.poll;
	char pod[KV_ADDR_TEXT];
	struct kv_follow_source source = {
		.name = name,
		.endpoint = bind ? way->events.bind : from,
		.bind = bind,
		.polled = way->events.poll,
		.pod = bind ? kv_addr_format(&way->address, pod, sizeof(pod)) : NULL,
		.topic = *way->events.topic ? way->events.topic : NULL,
		.replay = way->replay_port ? replay : NULL,
		.first = way->events.first,
		.engine = {.backend = id,
			   .rank = rank,
			   .model = model,
			   .lora_is_model = !way->events.lora_is_field,
			   .block = way->events.block},
	};

	told_source_name(b, rank, name);
	endpoint(way, way->port, rank, from);
	endpoint(way, way->replay_port, rank, replay);
	return kv_follow_add(t->follow, &source);
}

int told_poll_begin(struct told *t, struct told_backend *b)
{
	char from[TOLD_ENDPOINT_LEN];

	endpoint(&b->way, 0, 0, from);
	return told_poll_start(t, b, from);
}

void told_sources_remove(struct told *t, struct told_backend *b, __u32 ranks)
{
	char name[TOLD_SOURCE_LEN];

	told_poll_stop(b);
	for (__u32 rank = 0; t->follow && rank < ranks; rank++) {
		told_source_name(b, rank, name);
		kv_follow_remove(t->follow, name);
	}
	free(b->counted);
	b->counted = NULL;
}

static void on_problem(void *ctx, const char *source, enum kv_problem what, const char *text)
{
	(void)ctx, (void)what;
	if (source)
		kv_warn("events of %s: %s", source, text);
	else
		kv_warn("events: %s", text);
}

void told_follower_stop(struct told *t)
{
	tokenizer_free(t->tokenizer);
	kv_follow_free(t->follow);
	told_sink_close(&t->sink);
	t->tokenizer = NULL;
	t->follow = NULL;
}

int told_follower_start(struct told *t)
{
	struct kv_follow_limits limits = KV_FOLLOW_LIMITS;
	__u64 bytes = t->agent->config->limits.events;
	sigset_t all, before;
	int err;

	if (t->tokenizer)
		return 0;
	/* One part in sixteen is for ties. */
	limits.index.max_bytes = bytes - bytes / 16;
	for (int tier = 0; tier < KV_TIERS; tier++)
		limits.index.weights[tier] = KV_TIERS - tier;
	err = told_sink_open(&t->sink, &t->agent->dp, bytes / 16);
	if (err)
		return err;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	t->follow = kv_follow_new(&limits, &told_sink_ops, on_problem, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (t->follow) {
		kv_follow_on_turn(t->follow, told_sink_turn);
		t->tokenizer = tokenizer_new(t);
	}
	if (t->tokenizer)
		return 0;
	told_follower_stop(t);
	return -ENOMEM;
}

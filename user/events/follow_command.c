// SPDX-License-Identifier: BSD-2-Clause
/* What other threads want of the follower's: they leave it in a queue and go on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "events/follow_private.h"

#define COMMANDS 16 /* per turn: each may make sockets, and events wait meanwhile */

/* True, unless there is no memory. NULL stays NULL. */
static bool copy(char **ret, const char *text)
{
	*ret = text ? strdup(text) : NULL;
	return *ret || !text;
}

void command_free(struct command *c)
{
	if (!c)
		return;
	free(c->name);
	free(c->endpoint);
	free(c->pod);
	free(c->topic);
	free(c->replay);
	free(c->model);
	free(c);
}

static struct command *command_new(enum command_kind kind, const struct kv_follow_source *s)
{
	struct command *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->kind = kind;
	if (!copy(&c->name, s->name) || !copy(&c->endpoint, s->endpoint) ||
	    !copy(&c->pod, s->pod) || !copy(&c->topic, s->topic) || !copy(&c->replay, s->replay) ||
	    !copy(&c->model, s->engine.model)) {
		command_free(c);
		return NULL;
	}
	c->source = *s;
	c->source.name = c->name;
	c->source.endpoint = c->endpoint;
	c->source.pod = c->pod;
	c->source.topic = c->topic;
	c->source.replay = c->replay;
	c->source.engine.model = c->model;
	return c;
}

static int leave(struct kv_follow *f, enum command_kind kind, const struct kv_follow_source *s)
{
	struct command *c = command_new(kind, s);

	if (!c)
		return -ENOMEM;
	pthread_mutex_lock(&f->lock);
	TAILQ_INSERT_TAIL(&f->commands, c, link);
	pthread_mutex_unlock(&f->lock);
	kv_follow_wake(f);
	return 0;
}

int kv_follow_add(struct kv_follow *f, const struct kv_follow_source *source)
{
	return leave(f, COMMAND_ADD, source);
}

int kv_follow_remove(struct kv_follow *f, const char *name)
{
	return leave(f, COMMAND_REMOVE, &(struct kv_follow_source){.name = name});
}

int command_pending(const struct kv_follow *f, const char *name)
{
	const struct command *c;
	int state = 0;

	TAILQ_FOREACH (c, &f->commands, link)
		if (!strcmp(c->name, name))
			state = c->kind == COMMAND_ADD ? -EINPROGRESS : -ENOENT;
	return state;
}

int command_failed(const struct kv_follow *f, const char *name)
{
	const struct command *c;

	TAILQ_FOREACH (c, &f->failed, link)
		if (!strcmp(c->name, name))
			return c->error;
	return -ENOENT;
}

/* One that could not be added is remembered until it is removed. */
static void forget_failed(struct kv_follow *f, const char *name)
{
	struct command *c, *next;

	for (c = TAILQ_FIRST(&f->failed); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (strcmp(c->name, name))
			continue;
		TAILQ_REMOVE(&f->failed, c, link);
		command_free(c);
	}
}

bool follow_obey(struct kv_follow *f)
{
	struct command *c = NULL;
	int n = 0;

	for (; n < COMMANDS; n++) {
		pthread_mutex_lock(&f->lock);
		c = TAILQ_FIRST(&f->commands);
		pthread_mutex_unlock(&f->lock);
		if (!c)
			break;
		if (c->kind == COMMAND_ADD)
			c->error = source_add(f, &c->source);
		else
			source_remove(f, c->name);
		pthread_mutex_lock(&f->lock);
		TAILQ_REMOVE(&f->commands, c, link);
		if (c->kind == COMMAND_REMOVE)
			forget_failed(f, c->name);
		if (c->error)
			TAILQ_INSERT_TAIL(&f->failed, c, link);
		else
			command_free(c);
		pthread_mutex_unlock(&f->lock);
	}
	if (n)
		follow_show(f);
	return c != NULL;
}

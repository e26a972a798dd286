// SPDX-License-Identifier: BSD-2-Clause
/* What a service says of its engines' KV events. */
#include "common/config_reader.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define EITHER                                                                                     \
	"expected one of port (engines publish there), bind (engines connect to it) and poll "     \
	"(engines are asked)"

int config_read_port(struct reader *r, const char *key, const char *text, __u16 *port)
{
	__u64 number = *port;
	int err = config_read_number(r, key, text, &number);

	*port = number;
	return err;
}

static int read_weight(struct reader *r, const char *key, const char *text, __u16 *weight)
{
	__u64 percent = 0;
	int err = text ? config_read_number(r, key, text, &percent) : 0;

	if (text && !err)
		*weight = percent * KV_TIER_WHOLE / 100;
	return err;
}

static int read_text(struct reader *r, const char *key, const char *text, char *ret, size_t size)
{
	if (text && (!*text || strlen(text) >= size))
		return config_bad_value(r, key, text);
	snprintf(ret, size, "%s", text ? text : "");
	return 0;
}

/* Where engines dial in: as libzmq wants it. */
static int read_bind(struct reader *r, const char *text, struct kv_service_events *events)
{
	char plain[KV_ADDR_TEXT];
	struct kv_addr addr;

	if (!text)
		return 0;
	if (kv_addr_parse(text, &addr))
		return config_bad_value(r, "bind", text);
	if (kv_addr_is_any(&addr))
		snprintf(plain, sizeof(plain), "*:%u", ntohs(addr.port));
	else
		kv_addr_format(&addr, plain, sizeof(plain));
	snprintf(events->bind, sizeof(events->bind), "tcp://%s", plain);
	return 0;
}

/* Where engines are asked for them. */
static int read_poll(struct reader *r, const char *text, struct kv_service_events *events)
{
	if (!text)
		return 0;
	if (*events->bind)
		return kv_config_refuse(r->tree, r->scope, EITHER);
	if (!config_path_ok(text, sizeof(events->bind)))
		return config_bad_value(r, "poll", text);
	events->poll = true;
	strcpy(events->bind, text);
	return 0;
}

static int read_weights(struct reader *r, const struct kv_raw_weights *raw, __u32 index,
			__u16 *weight)
{
	weight[0] = KV_TIER_WHOLE;
	weight[1] = KV_TIER_WHOLE / 2;
	weight[2] = KV_TIER_WHOLE / 8;
	weight[3] = 0;
	if (!raw)
		return 0;
	snprintf(r->scope, sizeof(r->scope), "services[%u].events.weights", index);
	return read_weight(r, "cpu", raw->cpu, &weight[1])
		?: read_weight(r, "disk", raw->disk, &weight[2])
		?: read_weight(r, "external", raw->external, &weight[3]);
}

int config_read_events(struct reader *r, const struct kv_raw_events *raw, __u32 index,
		       struct kv_service_events *events)
{
	char ranks[READ_PATH_LEN];
	__u32 last;
	int err;

	events->ranks = 1;
	if (!raw)
		return read_weights(r, NULL, index, events->weight);
	events->on = true;
	snprintf(r->scope, sizeof(r->scope), "services[%u].events", index);
	err = read_text(r, "model", raw->model, events->model, sizeof(events->model))
		?: config_read_port(r, "port", raw->port, &events->port)
		?: config_read_port(r, "replay_port", raw->replay_port, &events->replay_port)
		?: read_bind(r, raw->bind, events)
		?: read_poll(r, raw->poll, events)
		?: read_text(r, "topic", raw->topic, events->topic, sizeof(events->topic))
		?: config_read_number32(r, "ranks", raw->ranks, &events->ranks)
		?: config_read_number32(r, "first", raw->first, &events->first)
		?: config_read_number32(r, "block", raw->block, &events->block);
	if (err)
		return err;
	snprintf(ranks, sizeof(ranks), "services[%u].events.ranks", index);
	last = (events->port > events->replay_port ? events->port : events->replay_port) +
	       events->ranks - 1;
	if (raw->lora && strcmp(raw->lora, "model") && strcmp(raw->lora, "field"))
		return config_bad_value(r, "lora", raw->lora);
	events->lora_is_field = raw->lora && !strcmp(raw->lora, "field");
	if (!events->port == !*events->bind)
		return kv_config_refuse(r->tree, r->scope, EITHER);
	if (*events->bind && !events->poll && events->ranks > 1)
		return kv_config_refuse(r->tree, ranks,
					"with bind all of an engine's ranks are one: expected 1");
	if (last > 65535)
		return kv_config_refuse(r->tree, ranks,
					"the last one's port would be %u: expected at most 65535",
					last);
	return read_weights(r, raw->weights, index, events->weight);
}

// SPDX-License-Identifier: BSD-2-Clause
/* A batch of events, in the forms of several engines and eras. */
#include <endian.h>
#include <string.h>
#include <time.h>

#include "events.h"

struct pack {
	msgpack_packer pk;
	const struct events_config *config;
	bool map;
};

static void text(struct pack *p, const char *s)
{
	msgpack_pack_str(&p->pk, strlen(s));
	msgpack_pack_str_body(&p->pk, s, strlen(s));
}

static void text_or_nil(struct pack *p, const char *s)
{
	if (s)
		text(p, s);
	else
		msgpack_pack_nil(&p->pk);
}

static void key(struct pack *p, const char *name)
{
	if (p->map)
		text(p, name);
}

static void begin(struct pack *p, uint32_t fields, const char *type)
{
	if (p->map)
		msgpack_pack_map(&p->pk, fields);
	else
		msgpack_pack_array(&p->pk, fields);
	key(p, "type");
	text(p, type);
}

static void hash(struct pack *p, uint64_t h)
{
	unsigned char digest[32];

	if (p->config->bytes) {
		memset(digest, 0x5a, sizeof(digest));
		h = htobe64(h);
		memcpy(digest + 24, &h, sizeof(h));
		msgpack_pack_bin(&p->pk, sizeof(digest));
		msgpack_pack_bin_body(&p->pk, digest, sizeof(digest));
	} else if (p->config->form == EVENTS_SGLANG || p->config->form == EVENTS_TRTLLM) {
		msgpack_pack_int64(&p->pk, (int64_t)h);
	} else {
		msgpack_pack_uint64(&p->pk, h);
	}
}

static void removed(struct pack *p, const uint64_t *hashes, uint32_t n)
{
	bool medium = p->config->form != EVENTS_TRTLLM && p->config->form != EVENTS_SIM;

	begin(p, medium ? 3 : 2, "BlockRemoved");
	key(p, "block_hashes");
	msgpack_pack_array(&p->pk, n);
	for (uint32_t i = 0; i < n; i++)
		hash(p, hashes[i]);
	if (medium) {
		key(p, "medium");
		text(p, "GPU");
	}
}

/* vLLM's: the LoRA's name with every block, the salt with the prompt's first. */
static void extra_keys(struct pack *p, const struct events_change *c, uint32_t from, uint32_t n)
{
	key(p, "extra_keys");
	msgpack_pack_array(&p->pk, n);
	for (uint32_t i = from; i < from + n; i++) {
		bool salt = c->salt && !i;

		if (!c->lora && !salt) {
			msgpack_pack_nil(&p->pk);
			continue;
		}
		msgpack_pack_array(&p->pk, (c->lora != NULL) + salt);
		if (c->lora)
			text(p, c->lora);
		if (salt)
			text(p, c->salt);
	}
}

/* Blocks from … of a prompt. */
static void stored(struct pack *p, const struct events_change *c, uint32_t from, uint32_t n)
{
	static const uint32_t fields[] = {[EVENTS_MAP] = 9,
					  [EVENTS_ARRAY] = 9,
					  [EVENTS_SGLANG] = 8,
					  [EVENTS_TRTLLM] = 6,
					  [EVENTS_SIM] = 5};
	enum events_form form = p->config->form;

	begin(p, fields[form], "BlockStored");
	key(p, "block_hashes");
	msgpack_pack_array(&p->pk, n);
	for (uint32_t i = from; i < from + n; i++)
		hash(p, c->hashes[i]);
	key(p, "parent_block_hash");
	if (from)
		hash(p, c->hashes[from - 1]);
	else if (form == EVENTS_SIM)
		msgpack_pack_int(&p->pk, 0);
	else
		msgpack_pack_nil(&p->pk);
	key(p, "token_ids");
	msgpack_pack_array(&p->pk, n * c->block_size);
	for (uint32_t i = 0; i < n * c->block_size; i++)
		msgpack_pack_uint32(&p->pk, c->tokens[(size_t)from * c->block_size + i]);
	key(p, "block_size");
	msgpack_pack_uint32(&p->pk, c->block_size);
	if (form == EVENTS_SIM)
		return; /* nils at the end are left out */
	key(p, "lora_id");
	if (c->lora && form != EVENTS_SGLANG)
		msgpack_pack_int(&p->pk, 1);
	else
		msgpack_pack_nil(&p->pk);
	if (form == EVENTS_TRTLLM)
		return;
	key(p, "medium");
	text(p, "GPU");
	if (form == EVENTS_SGLANG) {
		msgpack_pack_map(&p->pk, 1);
		text(p, "cache_salt");
		text_or_nil(p, c->salt);
		return;
	}
	key(p, "lora_name");
	text_or_nil(p, c->lora);
	extra_keys(p, c, from, n);
}

bool events_next_run(const struct events_change *c, uint32_t *at, uint32_t *ret_n)
{
	while (*at < c->n && !c->fresh[*at])
		(*at)++;
	for (*ret_n = 0; *at + *ret_n < c->n && c->fresh[*at + *ret_n];)
		(*ret_n)++;
	return *ret_n > 0;
}

void events_pack(msgpack_sbuffer *out, const struct events_config *config,
		 const struct events_batch *batch)
{
	struct pack p = {.config = config,
			 .map = config->form == EVENTS_MAP || config->form == EVENTS_TRTLLM};
	uint32_t events = (batch->n_removed > 0) + batch->cleared, at, n;
	struct timespec now;

	for (at = 0; batch->stored && events_next_run(batch->stored, &at, &n); at += n)
		events++;
	msgpack_packer_init(&p.pk, out, msgpack_sbuffer_write);
	msgpack_pack_array(&p.pk, config->form == EVENTS_SIM ? 2 : 3);
	clock_gettime(CLOCK_REALTIME, &now);
	msgpack_pack_double(&p.pk, now.tv_sec + now.tv_nsec / 1e9);
	msgpack_pack_array(&p.pk, events);
	if (batch->cleared)
		begin(&p, 1, "AllBlocksCleared");
	if (batch->n_removed)
		removed(&p, batch->removed, batch->n_removed);
	for (at = 0; batch->stored && events_next_run(batch->stored, &at, &n); at += n)
		stored(&p, batch->stored, at, n);
	if (config->form != EVENTS_SIM)
		msgpack_pack_uint32(&p.pk, config->rank);
}

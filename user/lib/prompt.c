// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "kvsteer.h"
#include "lib/body.h"
#include "lib/facts.h"
#include "lib/rungs.h"
#include "lib/text.h"

enum field {
	F_MODEL,
	F_LORA,
	F_SALT,
	F_EXTRA_KEY,
	F_USER,
	F_METADATA,
	F_TOOLS,
	F_FUNCTIONS,
	F_SYSTEM,
	F_INSTRUCTIONS,
	F_PREVIOUS,
	F_MESSAGES,
	F_PROMPT,
	F_INPUT,
	F_TEXT,
	F_INPUT_IDS,
	FIELDS
};

static const char *const names[FIELDS] = {
	[F_MODEL] = "model",
	[F_LORA] = "lora_path",
	[F_SALT] = "cache_salt",
	[F_EXTRA_KEY] = "extra_key",
	[F_USER] = "user",
	[F_METADATA] = "metadata",
	[F_TOOLS] = "tools",
	[F_FUNCTIONS] = "functions",
	[F_SYSTEM] = "system",
	[F_INSTRUCTIONS] = "instructions",
	[F_PREVIOUS] = "previous_response_id",
	[F_MESSAGES] = "messages",
	[F_PROMPT] = "prompt",
	[F_INPUT] = "input",
	[F_TEXT] = "text",
	[F_INPUT_IDS] = "input_ids",
};

/* Which field is the prompt, by the path's end; the longer one first. */
static const struct endpoint {
	const char *suffix;
	enum field prompt[5];
	unsigned int n;
} endpoints[] = {
	{"/chat/completions", {F_MESSAGES}, 1},
	{"/completions", {F_PROMPT}, 1},
	{"/messages", {F_MESSAGES}, 1},
	{"/responses", {F_INPUT}, 1},
	{"/generate", {F_TEXT, F_INPUT_IDS, F_PROMPT}, 3},
};
static const struct endpoint any_endpoint = {
	NULL, {F_MESSAGES, F_PROMPT, F_INPUT, F_TEXT, F_INPUT_IDS}, 5};

static const struct endpoint *endpoint_of(const char *path)
{
	size_t len;

	if (!path)
		return &any_endpoint;
	len = strcspn(path, "?#");
	while (len && path[len - 1] == '/')
		len--;
	for (size_t i = 0; i < sizeof(endpoints) / sizeof(*endpoints); i++) {
		size_t suffix = strlen(endpoints[i].suffix);

		if (len >= suffix && !memcmp(path + len - suffix, endpoints[i].suffix, suffix))
			return &endpoints[i];
	}
	return NULL;
}

/* One term of the hash's seed: what the caller says, else what the body says. */
static int key_field(struct kv_bytes *ret, const char *option, struct kv_value value,
		     char buf[KV_KEY_MAX])
{
	struct kv_json_decoder dec;
	char piece[256];
	size_t len;

	*ret = (struct kv_bytes){buf, 0};
	if (option) {
		*ret = (struct kv_bytes){option, strlen(option)};
		return ret->len <= KV_KEY_MAX ? 0 : -EINVAL;
	}
	if (kv_json_type(value) <= KV_JSON_NULL)
		return 0;
	if (kv_json_type(value) != KV_JSON_STRING)
		return -EINVAL;
	dec = kv_json_decode(NULL, value);
	while ((len = kv_json_read(&dec, piece, sizeof(piece)))) {
		if (len > KV_KEY_MAX - ret->len)
			return -EINVAL;
		memcpy(buf + ret->len, piece, len);
		ret->len += len;
	}
	return 0;
}

static int seed_of(struct kv_json *json, const struct kvsteer_options *opts,
		   const struct kv_value f[FIELDS], enum kvsteer_domain domain, uint64_t *ret_seed,
		   const char **ret_reason)
{
	static const char *const user_id[] = {"user_id"};
	char model[KV_KEY_MAX], lora[KV_KEY_MAX], salt[KV_KEY_MAX], tenant[KV_KEY_MAX];
	struct kv_key key = {.domain = domain};
	struct kv_value user = {};

	if (opts->flags & KVSTEER_USER_IS_TENANT) {
		user = f[F_USER];
		if (kv_json_type(user) <= KV_JSON_NULL)
			kv_json_fields(json, f[F_METADATA], user_id, 1, &user);
	}
	*ret_reason = "model is not a string of at most 4096 bytes";
	if (key_field(&key.model, opts->model, f[F_MODEL], model))
		return -EINVAL;
	*ret_reason = "lora_path is not a string of at most 4096 bytes";
	if (key_field(&key.lora, opts->lora, f[F_LORA], lora))
		return -EINVAL;
	*ret_reason = "cache_salt or extra_key is not a string of at most 4096 bytes";
	if (key_field(&key.salt, opts->salt,
		      kv_json_type(f[F_SALT]) > KV_JSON_NULL ? f[F_SALT] : f[F_EXTRA_KEY], salt))
		return -EINVAL;
	*ret_reason = "tenant or user is not a string of at most 4096 bytes";
	if (key_field(&key.tenant, opts->tenant, user, tenant))
		return -EINVAL;
	*ret_reason = NULL;
	*ret_seed = kv_seed(&key);
	return 0;
}

/* A batch of prompts is steered by its first one. */
static int first_prompt(struct kv_json *json, struct kv_value *prompt,
			enum kvsteer_domain *ret_domain)
{
	struct kv_json_iter it;
	struct kv_value item;

	*ret_domain = KVSTEER_TEXT;
	for (int depth = 0; kv_json_type(*prompt) == KV_JSON_ARRAY; depth++) {
		it = kv_json_iter(json, *prompt);
		if (!kv_json_next(&it, &item))
			return -ENOMSG;
		if (kv_json_type(item) == KV_JSON_NUMBER) {
			*ret_domain = KVSTEER_TOKENS;
			return 0;
		}
		if (depth == 1)
			return -EINVAL;
		*prompt = item;
	}
	return kv_json_type(*prompt) == KV_JSON_STRING ? 0 : -EINVAL;
}

static void add_tokens(struct kv_text *text, struct kv_value array)
{
	struct kv_json_iter it = kv_json_iter(text->json, array);
	uint32_t ids[256];
	int more;

	do {
		size_t n = 0;

		while (n < sizeof(ids) / sizeof(*ids) &&
		       (more = kv_json_next_u32(&it, &ids[n])) > 0)
			n++;
		kv_text_add(text, (const char *)ids, n * sizeof(*ids));
	} while (more > 0);
	if (more < 0)
		kv_text_fail(text, more, "a token id is not an integer of 0 to 4294967295");
}

static void add_chat(struct kv_text *text, const struct kv_value f[FIELDS], enum field prompt)
{
	bool tools = kv_json_type(f[F_TOOLS]) > KV_JSON_NULL;

	/* The earlier turns are on the server: their id stands for them. */
	if (prompt == F_INPUT && kv_json_type(f[F_PREVIOUS]) == KV_JSON_STRING)
		kv_text_string(text, KV_MARK_DIGEST, f[F_PREVIOUS]);
	kv_text_tools(text, f[tools ? F_TOOLS : F_FUNCTIONS]);
	if (prompt == F_MESSAGES && kv_json_type(f[F_SYSTEM]) > KV_JSON_NULL)
		kv_text_message(text, "system", f[F_SYSTEM]);
	if (prompt == F_INPUT && kv_json_type(f[F_INSTRUCTIONS]) > KV_JSON_NULL)
		kv_text_message(text, "system", f[F_INSTRUCTIONS]);
	if (prompt == F_INPUT && kv_json_type(f[F_INPUT]) == KV_JSON_STRING)
		kv_text_message(text, "user", f[F_INPUT]);
	else
		kv_text_messages(text, f[prompt]);
}

static int fail(struct kvsteer_prompt *prompt, int err, const char *reason)
{
	prompt->reason = reason;
	return err;
}

static uint32_t token_block(uint32_t block)
{
	return block ? block : KVSTEER_TOKEN_BLOCK;
}

static int add_prompt(struct kv_json *json, const struct kv_value f[FIELDS], enum field prompt,
		      const struct kvsteer_options *opts, struct kvsteer_prompt *ret_prompt,
		      struct kv_tap *tap)
{
	struct kv_text text;
	struct kv_value value = f[prompt];
	bool chat = prompt == F_MESSAGES || prompt == F_INPUT;
	uint32_t block = KVSTEER_TEXT_BLOCK;
	uint64_t seed;
	int err;

	if (!chat) {
		err = first_prompt(json, &value, &ret_prompt->domain);
		if (err)
			return fail(ret_prompt, err,
				    err == -ENOMSG ? "the prompt is empty"
						   : "the prompt is neither text nor token ids");
	}
	if (ret_prompt->domain == KVSTEER_TOKENS)
		block = token_block(opts->block);
	err = seed_of(json, opts, f, ret_prompt->domain, &seed, &ret_prompt->reason);
	if (err)
		return err;
	err = kv_text_init(&text, json, block * sizeof(uint32_t), seed);
	if (err)
		return fail(ret_prompt, err, "out of memory");
	if (ret_prompt->domain == KVSTEER_TEXT)
		text.tap = tap;
	if (chat)
		add_chat(&text, f, prompt);
	else if (ret_prompt->domain == KVSTEER_TOKENS)
		add_tokens(&text, value);
	else
		kv_text_string(&text, KV_MARK_TEXT, value);
	kv_text_flush(&text);
	if (!text.err)
		kv_rungs(&text.chain, text.boundaries, text.n_boundaries, ret_prompt);
	kv_text_free(&text);
	return fail(ret_prompt, text.err, text.reason);
}

static void get_facts(const struct kv_json *json, const struct kv_value f[FIELDS],
		      struct kv_facts *ret)
{
	struct kv_json_decoder dec;
	char piece[256];
	size_t n;

	ret->salted = kv_json_type(f[F_SALT]) > KV_JSON_NULL ||
		      kv_json_type(f[F_EXTRA_KEY]) > KV_JSON_NULL;
	ret->adapter = kv_json_type(f[F_LORA]) > KV_JSON_NULL;
	if (kv_json_type(f[F_MODEL]) != KV_JSON_STRING)
		return;
	dec = kv_json_decode(json, f[F_MODEL]);
	while ((n = kv_json_read(&dec, piece, sizeof(piece)))) {
		if (n > sizeof(ret->model) - ret->model_len)
			n = sizeof(ret->model) - ret->model_len;
		memcpy(ret->model + ret->model_len, piece, n);
		ret->model_len += n;
		if (ret->model_len == sizeof(ret->model))
			return;
	}
}

void kv_body_facts(const void *body, size_t len, struct kv_facts *ret)
{
	struct kv_value root, f[FIELDS];
	struct kv_json json;

	memset(ret, 0, sizeof(*ret));
	if (!kv_json_open(&json, body, len, &root) && kv_json_type(root) == KV_JSON_OBJECT) {
		kv_json_fields(&json, root, names, FIELDS, f);
		get_facts(&json, f, ret);
	}
	kv_json_close(&json);
}

/* facts, tap: NULL where nobody wants them. */
static int read_body(const char *path, const void *body, size_t len,
		     const struct kvsteer_options *opts, struct kvsteer_prompt *ret_prompt,
		     struct kv_facts *ret_facts, struct kv_tap *tap)
{
	static const struct kvsteer_options defaults;
	const struct endpoint *endpoint = endpoint_of(path);
	struct kv_value root, f[FIELDS];
	struct kv_json json;
	int err;

	memset(ret_prompt, 0, sizeof(*ret_prompt));
	if (ret_facts)
		memset(ret_facts, 0, sizeof(*ret_facts));
	if (!opts)
		opts = &defaults;
	if (!endpoint)
		return fail(ret_prompt, -EOPNOTSUPP, "the path is no completion endpoint");
	if (opts->block > KVSTEER_MAX_BLOCK)
		return fail(ret_prompt, -EINVAL, "more than 65536 tokens per block");
	err = kv_json_open(&json, body, len, &root);
	if (!err && kv_json_type(root) != KV_JSON_OBJECT) {
		json.reason = "the body is not a JSON object";
		err = -EINVAL;
	}
	if (err) {
		ret_prompt->reason = json.reason;
		goto out;
	}
	kv_json_fields(&json, root, names, FIELDS, f);
	if (ret_facts)
		get_facts(&json, f, ret_facts);
	ret_prompt->reason = "the body has no prompt";
	err = -ENOMSG;
	for (unsigned int i = 0; i < endpoint->n; i++) {
		if (kv_json_type(f[endpoint->prompt[i]]) <= KV_JSON_NULL)
			continue;
		err = add_prompt(&json, f, endpoint->prompt[i], opts, ret_prompt, tap);
		break;
	}
out:
	kv_json_close(&json);
	return err;
}

int kvsteer_body(const char *path, const void *body, size_t len, const struct kvsteer_options *opts,
		 struct kvsteer_prompt *ret_prompt)
{
	return read_body(path, body, len, opts, ret_prompt, NULL, NULL);
}

int kv_body(const char *path, const void *body, size_t len, const struct kvsteer_options *opts,
	    struct kvsteer_prompt *ret_prompt, struct kv_facts *ret_facts)
{
	return read_body(path, body, len, opts, ret_prompt, ret_facts, NULL);
}

int kv_body_text(const char *path, const void *body, size_t len, const struct kvsteer_options *opts,
		 struct kvsteer_prompt *ret_prompt, struct kv_tap *tap)
{
	return read_body(path, body, len, opts, ret_prompt, NULL, tap);
}

int kvsteer_tokens(const uint32_t *ids, size_t n, uint32_t block,
		   const struct kvsteer_options *opts, struct kvsteer_prompt *ret_prompt)
{
	static const struct kvsteer_options defaults;
	static const struct kv_value absent[FIELDS];
	struct kv_chain chain;
	uint64_t seed;
	int err;

	memset(ret_prompt, 0, sizeof(*ret_prompt));
	ret_prompt->domain = KVSTEER_TOKENS;
	if (!opts)
		opts = &defaults;
	if (block > KVSTEER_MAX_BLOCK)
		return fail(ret_prompt, -EINVAL, "more than 65536 tokens per block");
	if (n > UINT32_MAX)
		return fail(ret_prompt, -E2BIG, "more than 4294967295 tokens");
	err = seed_of(NULL, opts, absent, KVSTEER_TOKENS, &seed, &ret_prompt->reason);
	if (err)
		return err;
	err = kv_chain_init(&chain, token_block(block) * sizeof(uint32_t), seed);
	if (!err)
		err = kv_chain_add(&chain, ids, n * sizeof(*ids));
	if (!err)
		kv_rungs(&chain, NULL, 0, ret_prompt);
	kv_chain_free(&chain);
	return fail(ret_prompt, err, err ? "out of memory" : NULL);
}

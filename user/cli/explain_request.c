// SPDX-License-Identifier: BSD-2-Clause
#include "explain.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "control.h"
#include "lib/facts.h"
#include "lib/query.h"

#define DEFAULT_PATH "/v1/chat/completions"

static const char *const meanings[] = {
#define COUNTER_MEANING(name, meaning) [KV_CNT_##name] = meaning,
	KV_COUNTERS(COUNTER_MEANING)
#undef COUNTER_MEANING
};

const char *explain_lane(const struct explain_request *request)
{
	if (request->why == KV_CNT_MAX)
		return "its head, in one segment, says all that is needed";
	return meanings[request->why];
}

/* ---- the head ------------------------------------------------------------------------- */

struct head {
	char text[KV_HEAD_MAX + 1];
	size_t len;
};

static void put(struct head *head, const char *text, size_t n)
{
	if (n > KV_HEAD_MAX - head->len)
		n = KV_HEAD_MAX - head->len;
	memcpy(head->text + head->len, text, n);
	head->len += n;
}

static void put_field(struct head *head, const char *name, const char *value)
{
	if (!value)
		return;
	put(head, name, strnlen(name, KV_FIELD_NAME_MAX));
	put(head, ": ", 2);
	put(head, value, strcspn(value, "\r\n"));
	put(head, "\r\n", 2);
}

static void write_head(struct head *head, const struct explain_options *o, const char *hint,
		       size_t body_len, const struct kv_names *names)
{
	const char *path = o->hash.path ?: DEFAULT_PATH;
	char length[24];

	head->len = 0;
	snprintf(length, sizeof(length), "%zu", body_len);
	put(head, "POST ", 5);
	put(head, path, strlen(path));
	put(head, " HTTP/1.1\r\nHost: a\r\n", 20);
	put_field(head, "Content-Length", length);
	put_field(head, KVSTEER_HEADER_NAME, hint);
	put_field(head, (const char *)names->name[0], o->session);
	put_field(head, (const char *)names->tenant, o->as);
	put(head, "\r\n", 2);
}

/* A header's value, or with its name as kvsteer hash prints it. */
static const char *hint_value(const char *text)
{
	const size_t name = sizeof(KVSTEER_HEADER_NAME) - 1;

	if (!text)
		return NULL;
	text += strspn(text, " \t\r\n");
	if (!strncasecmp(text, KVSTEER_HEADER_NAME ":", name + 1))
		text += name + 1;
	return text + strspn(text, " \t");
}

/* By the parser itself, with the gateway's names and tenants' keys. */
static int parse(struct cli *cli, const struct view *view, const struct explain_options *o,
		 const char *hint, size_t body_len, struct explain_request *ret)
{
	const struct kv_service *service = view_service(view, ret->query.service);
	const struct kv_reason_info *reason;
	struct kv_names names = {0};
	struct kv_source s;
	struct head head;
	__u32 zero = 0;
	int rc = 0;

	if (view->pins->map[KV_PIN_kv_names].value_size != sizeof(names) ||
	    kv_pins_lookup(view->pins, KV_PIN_kv_names, &zero, &names))
		return cli_error(cli, "%s: cannot read the header names", cli->pin);
	if (o->session && !names.n)
		rc = cli_usage(cli, "--session: this gateway reads no session header");
	else if (o->as && !kv_tenancy(&names))
		rc = cli_usage(cli, "--as: this gateway has no tenancy");
	ret->tenants = kv_tenancy(&names);
	if (!rc) {
		write_head(&head, o, hint, body_len, &names);
		s = (struct kv_source){.data = (const __u8 *)head.text, .len = head.len};
		kv_request_parse(&ret->head, &s, &names);
	}
	explicit_bzero(&names, sizeof(names));
	if (rc)
		return rc;
	reason = kv_reason_info(ret->head.reason);
	if (ret->head.lane == KV_LANE_REFUSE)
		return cli_error(cli, "the gateway would refuse this request with status %d: %s",
				 reason->status, reason->text);
	if (body_len > service->body_limit)
		return cli_error(cli,
				 "the gateway would refuse this request with status 413: %zu bytes "
				 "of body, over the service's limit of %llu",
				 body_len, (unsigned long long)service->body_limit);
	ret->why = kv_refusal(&ret->head, ret->head.lane, ret->head.head_len, service,
			      ret->head.head_len);
	return 0;
}

/* ---- the prompt ----------------------------------------------------------------------- */

/* Options that replace what the body says, or say that it is none: so a client hashes, not the
 * agent. */
static bool hashed_by_client(const struct hash_options *o)
{
	return o->tokens || o->block || o->model || o->lora || o->salt || o->tenant;
}

static int hash_hint(struct cli *cli, const struct hash_options *o, const char *data, size_t len,
		     char value[KVSTEER_HEADER_SIZE])
{
	struct kvsteer_prompt prompt;
	int rc = hash_prompt(cli, o, data, len, &prompt);

	if (!rc && kvsteer_header(&prompt, value, KVSTEER_HEADER_SIZE) <= 0)
		return cli_error(cli, "%s: a prompt shorter than one block has no hint",
				 o->from ?: "stdin");
	return rc;
}

/* Of prompts that are token ids: the engines', where their events tell it. 0: the default. */
static __u32 block_of(const struct view *view, const struct kv_service *service)
{
	/* as told_block() of the agent */
	for (__u32 i = 0; service->events.on && i < service->n_backends && i < KV_MAX_BACKENDS;
	     i++) {
		const struct kv_backend *b = view_backend(view, service->backends[i]);

		if (b && b->told_block)
			return b->told_block;
	}
	return 0;
}

/* What the agent does with a body. */
static void read_body(const struct view *view, const struct explain_options *o, const char *data,
		      size_t len, struct explain_request *ret)
{
	const struct kvsteer_options options = {
		.block = block_of(view, view_service(view, ret->query.service)),
	};
	struct kvsteer_prompt prompt;

	if (kvsteer_body(o->hash.path, data, len, &options, &prompt)) {
		ret->unreadable = prompt.reason;
		return;
	}
	kv_query_set_prompt(&ret->query, &prompt);
	for (__u32 i = 0; ret->tenants && i < ret->query.n_rungs; i++)
		ret->query.rungs[i].hash =
			kv_tenant_mix(&ret->head.tenant, ret->query.rungs[i].hash);
}

/* Where engines' models differ only the agent knows which serves what. */
static int read_model(struct cli *cli, const struct view *view, const char *data, size_t len,
		      struct explain_request *ret)
{
	const struct kv_service *service = view_service(view, ret->query.service);
	_cleanup_json_mut_ yyjson_mut_doc *doc = NULL;
	_cleanup_json_ yyjson_doc *answer = NULL;
	char name[KV_NAME_LEN];
	yyjson_mut_val *root;
	struct kv_facts facts;
	yyjson_val *list, *id;
	size_t i, n;
	int rc;

	if (!(service->flags & KV_SERVICE_MODELS) || !ret->head.completion || !len)
		return 0;
	kv_body_facts(data, len, &facts);
	if (!facts.model_len)
		return 0;
	doc = yyjson_mut_doc_new(NULL);
	root = control_request(doc, "serving");
	yyjson_mut_obj_add_strcpy(doc, root, "service", view_name(service->name, name));
	yyjson_mut_obj_add_strn(doc, root, "model", facts.model,
				facts.model_len < sizeof(facts.model) ? facts.model_len : 0);
	rc = control_call(cli, doc, &answer);
	if (rc)
		return rc;
	list = yyjson_obj_get(yyjson_doc_get_root(answer), "backends");
	if (!yyjson_arr_size(list))
		return cli_error(cli, "the gateway would refuse this request with status 404: no "
				      "engine serves its model");
	yyjson_arr_foreach (list, i, n, id)
		if (yyjson_get_uint(id) < KV_MAX_BACKENDS)
			ret->mask[yyjson_get_uint(id) / 64] |= 1ull << (yyjson_get_uint(id) & 63);
	ret->masked = true;
	return 0;
}

/* The body, or nothing; a hint where that is what is there. */
static int read_input(struct cli *cli, const struct explain_options *o, char **ret, size_t *ret_len,
		      const char **ret_hint, char value[KVSTEER_HEADER_SIZE])
{
	const char *text;

	*ret_hint = hint_value(o->hint);
	if (o->hint && !o->file)
		return 0;
	*ret = cli_file(cli, o->file, ret_len);
	if (!*ret)
		return CLI_FAILED;
	if (o->hint)
		return 0;
	text = *ret + strspn(*ret, " \t\r\n");
	if (hashed_by_client(&o->hash)) {
		*ret_hint = value;
		return hash_hint(cli, &o->hash, *ret, *ret_len, value);
	}
	if (*text && *text != '{') {
		*ret_hint = hint_value(text);
		*ret_len = 0;
	}
	return 0;
}

int explain_read(struct cli *cli, const struct view *view, struct explain_options *o,
		 struct explain_request *ret)
{
	char value[KVSTEER_HEADER_SIZE];
	_cleanup_free_ char *data = NULL;
	const char *hint = NULL;
	size_t len = 0;
	int rc;

	if (o->hint && hashed_by_client(&o->hash))
		return cli_usage(cli, "--hint: options of hash make a hint of their own");
	if (o->file && strcmp(o->file, "-"))
		o->hash.from = o->file;
	rc = read_input(cli, o, &data, &len, &hint, value);
	if (!rc)
		rc = parse(cli, view, o, hint, o->hash.tokens ? 0 : len, ret)
			     ?: read_model(cli, view, data, o->hash.tokens ? 0 : len, ret);
	if (rc)
		return rc;
	if (ret->head.hint_state == KV_HINT_MALFORMED && !len)
		return cli_error(cli, "malformed " KVSTEER_HEADER_NAME
				      ": expected 1;TOTAL,DEPTH:HASH,... as of kvsteer hash");
	kv_query_from(&ret->query, &ret->head, ret->query.service);
	if (ret->why != KV_CNT_MAX)
		ret->query.body_len = ret->head.body_len;
	if (ret->head.hint_state == KV_HINT_OK) {
		ret->prompt = "hint";
	} else if (ret->why != KV_CNT_MAX && ret->head.completion) {
		read_body(view, o, data ?: "", len, ret);
		ret->prompt = ret->unreadable ? NULL : "body";
	}
	if (!ret->prompt)
		ret->prompt = ret->query.session ? "session" : "none";
	return 0;
}

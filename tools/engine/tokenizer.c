// SPDX-License-Identifier: BSD-2-Clause
/* /tokenize and /detokenize: a token is four bytes of text. */
#include <string.h>

#include "completion.h"

/* As vocabularies of GPT-2's kind have it: a character for each byte. n: up to 4. */
static void add_token_text(struct buf *b, const unsigned char *bytes, size_t n)
{
	char text[8], *p = text;

	for (size_t i = 0; i < n; i++) {
		uint32_t c = bytes[i];

		if (c < 0x21)
			c += 0x100;
		else if (c >= 0x7f && c < 0xa1)
			c += 0x121 - 0x7f;
		else if (c == 0xad)
			c = 0x143;
		if (c == '"' || c == '\\')
			*p++ = '\\';
		if (c >= 0x80) {
			*p++ = 0xc0 | c >> 6;
			c = 0x80 | (c & 0x3f);
		}
		*p++ = c;
	}
	buf_add(b, text, p - text);
}

static void add_number(struct buf *b, uint32_t n)
{
	char text[10], *p = text + sizeof(text);

	do
		*--p = '0' + n % 10;
	while (n /= 10);
	buf_add(b, p, text + sizeof(text) - p);
}

static void add_token_texts(struct buf *b, const struct prompt *p, size_t len)
{
	const unsigned char *bytes = (const unsigned char *)buf_head(&p->tokens);

	buf_str(b, "],\"token_strs\":[");
	for (size_t at = 0; at < len; at += 4) {
		buf_str(b, at ? ",\"" : "\"");
		add_token_text(b, bytes + at, len - at < 4 ? len - at : 4);
		buf_str(b, "\"");
	}
	buf_str(b, "]}");
}

static void tokenize(struct conn *c)
{
	yyjson_doc *doc = yyjson_read(c->req.body.p, c->req.body.n, 0);
	yyjson_val *root = yyjson_doc_get_root(doc);
	int api = yyjson_obj_get(root, "messages") ? API_CHAT : API_COMPLETIONS;
	const char *why = "the body is not JSON";
	struct prompts prompts = {0};
	struct buf b = {0};

	if (!doc || prompts_read(root, api, &prompts, &why)) {
		conn_error(c, 400, why);
	} else {
		struct prompt *p = &prompts.prompt[0];
		uint32_t n = prompt_tokens(p), zero = 0;
		size_t len = p->tokens.len;

		buf_add(&p->tokens, &zero, 4ul * n - p->tokens.len);
		buf_printf(&b, "{\"count\":%u,\"max_model_len\":%u,\"tokens\":[", n,
			   c->engine->opt->max_model_len);
		for (uint32_t i = 0; i < n; i++) {
			uint32_t t;

			memcpy(&t, buf_head(&p->tokens) + 4ul * i, 4);
			buf_str(&b, i ? "," : "");
			add_number(&b, t);
		}
		if (yyjson_get_bool(yyjson_obj_get(root, "return_token_strs")))
			add_token_texts(&b, p, len);
		else
			buf_str(&b, "],\"token_strs\":null}");
		conn_answer(c, 200, "application/json", buf_head(&b), b.len);
	}
	buf_free(&b);
	prompts_free(&prompts);
	yyjson_doc_free(doc);
}

/* Not for benches: some routers send each prompt here first, where it is there, and would be
 * charged for our JSON. */
void tokenize_request(struct conn *c)
{
	if (c->engine->opt->instant)
		conn_error(c, 404, "no tokenizer in instant mode");
	else
		tokenize(c);
}

void detokenize_request(struct conn *c)
{
	yyjson_doc *doc = yyjson_read(c->req.body.p, c->req.body.n, 0);
	yyjson_val *tokens = yyjson_obj_get(yyjson_doc_get_root(doc), "tokens"), *t;
	struct buf text = {0}, b = {0};
	size_t i, max;

	yyjson_arr_foreach (tokens, i, max, t) {
		uint32_t v = yyjson_get_uint(t);

		buf_add(&text, &v, sizeof(v));
	}
	while (text.len && !buf_head(&text)[text.len - 1])
		text.len--;
	buf_str(&b, "{\"prompt\":\"");
	buf_json(&b, buf_head(&text), text.len);
	buf_str(&b, "\"}");
	if (yyjson_is_arr(tokens))
		conn_answer(c, 200, "application/json", buf_head(&b), b.len);
	else
		conn_error(c, 400, "tokens: an array is needed");
	buf_free(&text);
	buf_free(&b);
	yyjson_doc_free(doc);
}

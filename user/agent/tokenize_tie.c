// SPDX-License-Identifier: BSD-2-Clause
/*
 * A thread: the engine's tokens against the prompt's text. A rung is tied to the last token block
 * that lies whole within its text: so at most one block less is told than is claimed, and never a
 * block that depends on what follows the rung.
 */
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include <kvsteer/tenant.h>

#include "agent/tokenize_private.h"
#include "common/cleanup.h"
#include "events/align.h"
#include "lib/body.h"

#define ANSWERED_MAX (128u << 20) /* bytes that wait for the thread */

/* The engine's tokens, ids and strings. */
struct tokens {
	yyjson_doc *doc;
	uint32_t *ids;
	struct kv_align_token *texts;
	uint32_t n;
};

static void tokens_exit(struct tokens *t)
{
	free(t->ids);
	free(t->texts);
	yyjson_doc_free(t->doc);
}

static bool tokens_read(struct tokens *t, char *answer, size_t len)
{
	yyjson_val *root, *ids, *texts, *v;
	yyjson_arr_iter it;
	uint32_t i = 0;

	t->doc = yyjson_read(answer, len, 0);
	root = yyjson_doc_get_root(t->doc);
	ids = yyjson_obj_get(root, "tokens");
	texts = yyjson_obj_get(root, "token_strs");
	t->n = yyjson_arr_size(ids);
	if (!t->n || yyjson_arr_size(texts) != t->n)
		return false;
	t->ids = calloc(t->n, sizeof(*t->ids));
	t->texts = calloc(t->n, sizeof(*t->texts));
	if (!t->ids || !t->texts)
		return false;
	it = yyjson_arr_iter_with(ids);
	while ((v = yyjson_arr_iter_next(&it))) {
		if (!yyjson_is_uint(v) || yyjson_get_uint(v) > UINT32_MAX)
			return false;
		t->ids[i++] = yyjson_get_uint(v);
	}
	it = yyjson_arr_iter_with(texts);
	for (i = 0; (v = yyjson_arr_iter_next(&it)); i++) {
		if (!yyjson_is_str(v))
			return false;
		t->texts[i] = (struct kv_align_token){yyjson_get_str(v), yyjson_get_len(v)};
	}
	return true;
}

/* Ties of the prompt's rungs; NULL: none. */
static struct told_ties *ties_of(const struct tokenize_job *job, const struct tokens *tokens,
				 const struct kvsteer_prompt *prompt, const struct kv_tap *text)
{
	struct told_ties *ties = calloc(1, sizeof(*ties));
	struct kv_align align = {};
	struct kv_chain chain;
	int err = kv_chain_init(&chain, job->block * sizeof(uint32_t), kv_token_seed(prompt->seed));

	if (!err)
		err = kv_chain_add(&chain, tokens->ids, tokens->n * sizeof(*tokens->ids));
	if (!err)
		err = kv_align_init(&align, text->data, text->len, tokens->texts, tokens->n);
	for (uint32_t i = 0; ties && !err && i < prompt->n_rungs; i++) {
		uint32_t n = kv_align_tokens(&align, 4ul * prompt->rungs[i].depth);
		uint64_t hash = prompt->rungs[i].hash;

		if (n == KV_ALIGN_UNKNOWN || n < job->block)
			continue;
		ties->tie[ties->n].token = chain.hashes[n / job->block - 1];
		ties->tie[ties->n++].text =
			job->has_tenant ? kv_tenant_mix(&job->tenant, hash) : hash;
	}
	kv_align_exit(&align);
	kv_chain_free(&chain);
	if (ties && ties->n)
		return ties;
	free(ties);
	return NULL;
}

static void work(struct tokenizer *z, struct tokenize_job *job)
{
	struct dataplane *dp = &z->told->agent->dp;
	struct kvsteer_prompt prompt;
	struct told_ties *ties = NULL;
	struct tokens tokens = {};
	struct kv_tap text = {};

	if (tokens_read(&tokens, job->answer.p, job->answer.len) &&
	    !kv_body_text(job->path, job->body, job->body_len, NULL, &prompt, &text) && text.len)
		ties = ties_of(job, &tokens, &prompt, &text);
	/* Nobody else counts these. */
	if (ties) {
		count(dp, tied_prompts);
		dp->counters[KV_CNT_tied_rungs] += ties->n;
		told_sink_tie(&z->told->sink, ties);
		kv_follow_wake(z->told->follow);
	} else {
		count(dp, tokenize_unmatched);
	}
	tokens_exit(&tokens);
	free(text.data);
	tokenize_job_free(job);
}

void *tokenize_thread(void *arg)
{
	struct tokenizer *z = arg;
	struct tokenize_job *job;

	pthread_mutex_lock(&z->mutex);
	for (;;) {
		while (!z->stop && !(job = TAILQ_FIRST(&z->answered)))
			pthread_cond_wait(&z->more, &z->mutex);
		if (z->stop)
			break;
		TAILQ_REMOVE(&z->answered, job, link);
		z->answered_bytes -= job->answer.len;
		pthread_mutex_unlock(&z->mutex);
		work(z, job);
		pthread_mutex_lock(&z->mutex);
	}
	pthread_mutex_unlock(&z->mutex);
	return NULL;
}

void tokenize_answered(struct tokenizer *z, struct tokenize_job *job)
{
	bool room;

	pthread_mutex_lock(&z->mutex);
	room = z->answered_bytes + job->answer.len <= ANSWERED_MAX;
	if (room) {
		TAILQ_INSERT_TAIL(&z->answered, job, link);
		z->answered_bytes += job->answer.len;
		pthread_cond_signal(&z->more);
	}
	pthread_mutex_unlock(&z->mutex);
	if (room)
		return;
	tokenize_job_free(job);
	count(&z->told->agent->dp, tokenize_dropped);
}

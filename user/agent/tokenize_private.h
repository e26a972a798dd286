/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of tokenize.h. */
#ifndef AGENT_TOKENIZE_PRIVATE_H
#define AGENT_TOKENIZE_PRIVATE_H

#include <pthread.h>

#include "agent/told_private.h"
#include "agent/tokenize.h"
#include "engines/complaint.h"

/* A request's prompt on its way to ties. */
struct tokenize_job {
	TAILQ_ENTRY(tokenize_job) link;
	const char *path; /* which kind of endpoint: a constant */
	char *body;	  /* what is posted: the request's own, and one field more */
	size_t body_len;
	struct fetch_text answer;
	bool has_tenant;
	struct kv_sip tenant;
	__u64 created_ns;
	__u64 prompt; /* hash of it: its mark in tokenizer.seen */
	__u32 block;  /* tokens per block of the engine's events */
};

TAILQ_HEAD(tokenize_jobs, tokenize_job);

/* Of one engine. */
struct tokenize_queue {
	struct tokenizer *z;
	__u32 backend;
	struct tokenize_jobs jobs;
	__u32 n;
	struct fetch *fetch; /* of the first job */
	struct event timer;
	__u64 not_before;
	struct complaint complaint;
};

struct tokenizer {
	struct told *told;
	struct tokenize_queue queues[KV_MAX_BACKENDS];
	size_t bytes;	  /* of all jobs that wait */
	__u64 seen[4096]; /* prompts asked about lately, or waiting, by hash */
	pthread_t thread;
	bool running;
	pthread_mutex_t mutex; /* of what follows */
	pthread_cond_t more;
	struct tokenize_jobs answered;
	size_t answered_bytes;
	bool stop;
};

void tokenize_job_free(struct tokenize_job *job);
/* tokenize_tie.c: takes the job over. */
void tokenize_answered(struct tokenizer *z, struct tokenize_job *job);
void *tokenize_thread(void *tokenizer);

#endif

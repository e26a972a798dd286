/* SPDX-License-Identifier: BSD-2-Clause */
/* kvsteer record: live traffic as a trace. */
#ifndef KVSTEER_CLI_RECORD_H
#define KVSTEER_CLI_RECORD_H

#include <sys/queue.h>

#include "record_tap.h"
#include "sim/trace_ladders.h"
#include "sim/trace_write.h"
#include "view.h"

#define RECORD_TAKEN_BACK 64 /* of those that may yet be decided again */

struct record_options {
	const char *file; /* "-": standard output */
	const char *service_name;
	__u32 service;	   /* KV_NONE: all */
	__u32 sample;	   /* 1 of so many */
	__u32 buffer;	   /* bytes */
	__u32 block;	   /* tokens */
	__u64 duration_ns; /* 0: until it is ended */
	bool force;
};

/* 0, or an exit code after the error was told. service is the caller's to look up. */
int record_options(struct cli *cli, int argc, char **argv, struct record_options *o);

/* What has been heard so far; each dispatch is counted once. */
struct record_counts {
	__u64 heard;	  /* dispatches, those of repeated requests too */
	__u64 written;	  /* requests */
	__u64 unsampled;  /* not of the sample */
	__u64 promptless; /* without a prompt: nothing to steer by, nothing to simulate */
	__u64 overlong;	  /* more blocks than a trace's line holds */
	__u64 repeated;	  /* decided again: failed, or lent too late */
	__u64 taken_back; /* decisions */
};

struct record_book {
	struct trace_ladders *ladders;
	struct trace_writer *writer;
	__u64 start_ns;
	double last_s;
	struct record_counts n;
	struct record_taken_back {
		__u64 number; /* of which request, 0: none */
		__u64 at_ns;  /* when it had been decided */
		__u64 heard_ns;
	} taken_back[RECORD_TAKEN_BACK]; /* a ring */
};

/* Enters one dispatch. 0, or -errno of the file or of memory. */
int record_enter(struct record_book *book, const struct kv_dispatch *d);

#endif

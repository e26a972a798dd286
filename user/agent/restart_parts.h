/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of restart.c: what it waits for, and the question to the program that is to follow. */
#ifndef AGENT_RESTART_PARTS_H
#define AGENT_RESTART_PARTS_H

#include <sys/types.h>

#include "agent/agent.h"

#define RESTART_TEXT 1024

struct restart_check {
	struct agent *agent;
	pid_t pid;
	struct event output;
	char text[RESTART_TEXT];
	size_t len;
};

enum restart_verdict {
	RESTART_FITS,
	RESTART_OTHER_MAPS,
	RESTART_REFUSED, /* why is in text */
};

/* 0: restart_checked is called later. -errno: it cannot be executed. */
int restart_check_begin(struct agent *agent, struct restart_check *check, const char *program);
void restart_checked(struct agent *agent, enum restart_verdict verdict);

/* Requests that have to end first. Those of which nothing has come yet are let go. */
__u32 restart_in_hand(struct agent *agent, __u64 now_ns);
/* A line for each that has not. */
void restart_say_late(const struct agent *agent);

#endif

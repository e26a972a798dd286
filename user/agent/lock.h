/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who runs: one agent per network namespace (its tc filters) and per pin directory. Locks are
 * files in /run/kvsteer, because bpffs knows no flock. The namespace's file also keeps what the
 * next agent must know after a kill -9: which clsact qdiscs and settings of lo were made by us.
 */
#ifndef AGENT_LOCK_H
#define AGENT_LOCK_H

#include <stdbool.h>

#define LOCK_DIR "/run/kvsteer"
#define LOCK_QDISCS 64

struct lock {
	int netns_fd;
	int pin_fd;
	int n_qdiscs;
	int qdisc[LOCK_QDISCS]; /* ifindex; negative: a setting of lo (loopback.c) */
};

/* Prints what is wrong: another agent (with its pid), no permission. */
int lock_take(struct lock *lock, const char *pin);
bool lock_has_qdisc(const struct lock *lock, int ifindex);
void lock_set_qdisc(struct lock *lock, int ifindex, bool ours);
void lock_release(struct lock *lock);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timers of an event loop that waits for packets, too. By timerfd, not by evtimer: with a timeout
 * in epoll_wait the kernel would set and cancel a timer around every sleep, which in a virtual
 * machine costs more than the rest of the system call. So what is pending for long is one of these;
 * a limit on something under way may be an evtimer.
 */
#ifndef KV_TIMER_H
#define KV_TIMER_H

#include <event2/event_struct.h>
#include <stdint.h>

struct kv_timer {
	struct event event;
	void (*fn)(void *arg);
	void *arg;
};

/* Not set yet. 0, or -errno: told. */
int kv_timer_open(struct kv_timer *t, struct event_base *base, void (*fn)(void *arg), void *arg);
/* fn is called in first_ms, and then each every_ms (0: once), and no more for an earlier setting.
 */
void kv_timer_set(struct kv_timer *t, uint64_t first_ms, uint64_t every_ms);
/* Nothing, where it is all zero or closed. */
void kv_timer_close(struct kv_timer *t);

#endif

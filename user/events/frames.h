/* SPDX-License-Identifier: BSD-2-Clause */
/* ZeroMQ messages of several frames, and where the number stands in those of KV events. */
#ifndef KVSTEER_EVENTS_FRAMES_H
#define KVSTEER_EVENTS_FRAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <zmq.h>

#define FRAMES_MAX 4

struct frames {
	zmq_msg_t part[FRAMES_MAX];
	int n;
	bool more; /* there were more than that */
};

/* 1: a message, 0: none there, or -errno. */
int frames_receive(void *socket, struct frames *f);
void frames_close(struct frames *f);
/* Last but one: the number, big-endian, last: the payload. */
bool frames_seq(struct frames *f, uint64_t *ret);

#endif

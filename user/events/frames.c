// SPDX-License-Identifier: BSD-2-Clause
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "events/frames.h"

int frames_receive(void *socket, struct frames *f)
{
	zmq_msg_t spare;
	int more = 1;

	f->n = 0;
	f->more = false;
	while (more) {
		zmq_msg_t *part = f->n < FRAMES_MAX ? &f->part[f->n] : &spare;

		zmq_msg_init(part);
		/* All frames of a message are there when the first is. */
		if (zmq_msg_recv(part, socket, ZMQ_DONTWAIT) < 0) {
			int err = errno;

			zmq_msg_close(part);
			frames_close(f);
			return err == EAGAIN ? 0 : -err;
		}
		more = zmq_msg_more(part);
		if (f->n < FRAMES_MAX) {
			f->n++;
		} else {
			f->more = true;
			zmq_msg_close(part);
		}
	}
	return 1;
}

void frames_close(struct frames *f)
{
	for (int i = 0; i < f->n; i++)
		zmq_msg_close(&f->part[i]);
	f->n = 0;
}

bool frames_seq(struct frames *f, uint64_t *ret)
{
	zmq_msg_t *part;

	if (f->n < 2 || f->more)
		return false;
	part = &f->part[f->n - 2];
	if (zmq_msg_size(part) != sizeof(*ret))
		return false;
	memcpy(ret, zmq_msg_data(part), sizeof(*ret));
	*ret = be64toh(*ret);
	return true;
}

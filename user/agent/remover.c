// SPDX-License-Identifier: BSD-2-Clause
/*
 * A process of its own, root and without any capability, so that it can do one thing: to unlink in
 * directories of root. It holds no other descriptor, does what two one-byte words say, and ends
 * with the agent, however that ends. If the agent was killed nothing is removed: the next one takes
 * it over.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/pin.h"
#include "agent/privileges.h"
#include "agent/remover.h"
#include "common/log.h"

#define WORD_PINS 'p'
#define WORD_CONTROL 'c'

static int remover = -1; /* our end of its socket */

static void remover_do(int fd, const struct kv_config *config)
{
	char word;

	if (recv(fd, &word, 1, 0) != 1)
		_exit(0);
	if (word == WORD_PINS)
		pin_remove(config->pin);
	else if (word == WORD_CONTROL)
		unlink(config->control);
	send(fd, &word, 1, MSG_NOSIGNAL);
}

/* Looks at the agent too: its end of the socket may be held by others than it. */
static void remover_run(int fd, int agent, const struct kv_config *config)
{
	struct pollfd polls[] = {{.fd = fd, .events = POLLIN}, {.fd = agent, .events = POLLIN}};

	prctl(PR_SET_NAME, "kvsteerd-remove");
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	while (poll(polls, 2, -1) > 0 || errno == EINTR) {
		if (polls[0].revents)
			remover_do(fd, config);
		else if (polls[1].revents)
			_exit(0);
	}
	_exit(1);
}

/* The descriptors 0 … 2, and these two. */
static int close_others(int a, int b)
{
	int low = a < b ? a : b, high = a < b ? b : a;

	if ((low > 3 && close_range(3, low - 1, 0) < 0) ||
	    (high > low + 1 && close_range(low + 1, high - 1, 0) < 0) ||
	    close_range(high + 1, ~0u, 0) < 0)
		return -errno;
	return 0;
}

int remover_start(const struct kv_config *config)
{
	int agent = syscall(SYS_pidfd_open, getpid(), 0), fds[2], err = -errno;
	pid_t pid;

	if (agent < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0) {
		err = -errno;
		kv_err("cannot start what removes pins and socket at the end: %s", strerror(-err));
		if (agent >= 0)
			close(agent);
		return err;
	}
	pid = fork();
	if (!pid) {
		if (close_others(fds[1], agent) || privileges_none())
			_exit(1);
		remover_run(fds[1], agent, config);
	}
	err = -errno;
	close(agent);
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		kv_err("cannot start what removes pins and socket at the end: %s", strerror(-err));
		return err;
	}
	remover = fds[0];
	return 0;
}

static bool remover_ask(char word)
{
	char reply;

	if (remover < 0)
		return false;
	if (send(remover, &word, 1, MSG_NOSIGNAL) != 1 || recv(remover, &reply, 1, 0) != 1)
		kv_warn("pins and control socket: what should remove them is gone: the next start "
			"does");
	return true;
}

bool remover_pins(void)
{
	return remover_ask(WORD_PINS);
}

bool remover_control(void)
{
	return remover_ask(WORD_CONTROL);
}

// SPDX-License-Identifier: BSD-2-Clause
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/handover.h"
#include "common/cleanup.h"
#include "common/log.h"

/* ---- sockets ------------------------------------------------------------------------- */

/* The agent before may have been killed while it probed (probe.c). */
static void end_repair(int fd)
{
	static const int off = TCP_REPAIR_OFF_NO_WP, one = 1;
	int repair = 0;
	socklen_t len = sizeof(repair);

	if (!getsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &repair, &len) && repair) {
		setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &off, sizeof(off));
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	}
}

int handover_sockets_find(struct handover_sockets *sockets)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	size_t room = 0;

	if (!dir) {
		kv_err("/proc/self/fd: %s: mount /proc", strerror(errno));
		return -errno;
	}
	while ((entry = readdir(dir))) {
		int fd = atoi(entry->d_name);

		if (fd < 3 || !keeper_keeps(fd))
			continue;
		if (sockets->n == room) {
			int *grown;

			room = room ? 2 * room : 64;
			grown = realloc(sockets->fd, room * sizeof(*grown));
			if (!grown)
				return -ENOMEM;
			sockets->fd = grown;
		}
		fcntl(fd, F_SETFD, FD_CLOEXEC);
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
		end_repair(fd);
		sockets->fd[sockets->n++] = fd;
	}
	return 0;
}

static bool is_listening(int fd)
{
	int listening = 0;
	socklen_t len = sizeof(listening);

	return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) && listening;
}

static void close_socket(int *fd)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};

	if (*fd < 0)
		return;
	/* A listener may have another descriptor, and what it accepts inherits from it. */
	if (!is_listening(*fd))
		setsockopt(*fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(*fd);
	*fd = -1;
}

void handover_connections_close(struct agent *agent)
{
	struct handover_sockets *sockets = &agent->handover->sockets;

	for (size_t i = 0; i < sockets->n; i++)
		if (!is_listening(sockets->fd[i]))
			close_socket(&sockets->fd[i]);
}

void handover_sockets_close(struct agent *agent)
{
	struct handover_sockets *sockets = &agent->handover->sockets;

	for (size_t i = 0; i < sockets->n; i++)
		close_socket(&sockets->fd[i]);
	free(sockets->fd);
	*sockets = (struct handover_sockets){};
}

static bool listens_on(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct sockaddr_storage own = {};
	socklen_t own_len = sizeof(own);
	struct kv_addr a, b;

	return fd >= 0 && is_listening(fd) && !getsockname(fd, (struct sockaddr *)&own, &own_len) &&
	       own.ss_family == sa->sa_family && own_len == len &&
	       !kv_addr_from_sockaddr((struct sockaddr *)&own, &a) &&
	       !kv_addr_from_sockaddr(sa, &b) && kv_addr_equal(&a, &b);
}

int handover_listener(struct agent *agent, const struct sockaddr *sa, socklen_t len)
{
	struct handover_sockets *sockets = &agent->handover->sockets;

	for (size_t i = 0; i < sockets->n; i++) {
		int fd = sockets->fd[i];

		if (!listens_on(fd, sa, len))
			continue;
		sockets->fd[i] = -1;
		return fd;
	}
	return -1;
}

/* ---- the configuration in force ------------------------------------------------------ */

struct kv_config *handover_config(struct keeper *keeper)
{
	struct kv_config *config;

	if (keeper->why != KEEPER_CRASH || keeper->config_fd < 0)
		return NULL;
	config = calloc(1, sizeof(*config));
	if (config && pread(keeper->config_fd, config, sizeof(*config), 0) != sizeof(*config)) {
		free(config);
		config = NULL;
	}
	/* An agent of a version before did not say. */
	if (config && pread(keeper->config_fd, &keeper->file, sizeof(keeper->file),
			    sizeof(*config)) != sizeof(keeper->file))
		keeper->file = 0;
	return config;
}

/* ---- all ----------------------------------------------------------------------------- */

int handover_open(struct agent *agent)
{
	struct handover *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	agent->handover = h;
	TAILQ_INIT(&h->orphans);
	TAILQ_INIT(&h->died);
	h->since_ns = kv_now_ns();
	return agent->keeper.why == KEEPER_FRESH ? 0 : handover_sockets_find(&h->sockets);
}

void handover_close(struct agent *agent)
{
	if (!agent->handover)
		return;
	handover_sockets_close(agent);
	kv_config_free(agent->handover->file);
	free(agent->handover->gen);
	free(agent->handover);
	agent->handover = NULL;
}

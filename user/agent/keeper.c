// SPDX-License-Identifier: BSD-2-Clause
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/keeper.h"
#include "agent/supervisor.h"
#include "common/cleanup.h"
#include "common/log.h"

#define ENV_PATH "KVSTEERD_PATH"
#define ENV_WHY "KVSTEERD_START" /* "crash FAILURES CONFIG-FD", "restart …", "manager" */
#define FAILURES_MAX 5
#define FAILURE_DELAY_MS 200 /* twice as long after each */
#define SELF "/proc/self/exe"

/* What the agent tells its keeper, in memory that both have. */
struct keeper_note {
	bool serving;
	bool ending;
	bool restart;
	char path[KEEPER_PATH];
};

/* ---- what has been left -------------------------------------------------------------- */

static void read_why(struct keeper *keeper)
{
	const char *text = getenv(ENV_WHY);

	keeper->config_fd = -1;
	if (!text)
		return;
	if (!strcmp(text, "manager"))
		keeper->why = KEEPER_MANAGER;
	else if (sscanf(text, "crash %d %d", &keeper->failures, &keeper->config_fd) == 2)
		keeper->why = KEEPER_CRASH;
	else if (sscanf(text, "restart %d %d", &keeper->failures, &keeper->config_fd) == 2)
		keeper->why = KEEPER_RESTART;
	unsetenv(ENV_WHY);
}

int keeper_open(struct keeper *keeper, char **argv)
{
	const char *path = getenv(ENV_PATH);
	ssize_t n;

	keeper->argv = argv;
	read_why(keeper);
	/* The link is of no use once the file has been replaced: read at the first start only. */
	if (path) {
		snprintf(keeper->path, sizeof(keeper->path), "%s", path);
	} else {
		n = readlink(SELF, keeper->path, sizeof(keeper->path) - 1);
		if (n < 0)
			return -errno;
		keeper->path[n] = 0;
		setenv(ENV_PATH, keeper->path, 1);
	}
	keeper->note = mmap(NULL, sizeof(*keeper->note), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return keeper->note == MAP_FAILED ? -errno : 0;
}

/* ---- the keeper's own process -------------------------------------------------------- */

static bool is_tcp(int fd)
{
	int protocol = 0;
	socklen_t len = sizeof(protocol);

	return !getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) && protocol == IPPROTO_TCP;
}

/* TCP sockets outlive exec, and the configuration; all else was the dead agent's own. */
static void keep_descriptors(int config_fd)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;

	close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
	while (dir && (entry = readdir(dir))) {
		int fd = atoi(entry->d_name);

		if (fd > 2 && (fd == config_fd || is_tcp(fd)))
			fcntl(fd, F_SETFD, 0);
	}
}

/* The agent before may be one that an attacker has made his: what it could have written is not
 * believed, but our own copy. */
static int write_config(const struct kv_config *from)
{
	int fd = memfd_create("kvsteerd-config", MFD_CLOEXEC);
	struct kv_config config = *from;

	config.services = NULL;
	config.n_services = 0;
	if (fd >= 0 && pwrite(fd, &config, sizeof(config), 0) != sizeof(config)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* An agent that cannot start is not started over and over at full speed. */
static void delay(int failures)
{
	struct timespec time = {};
	long ms = FAILURE_DELAY_MS << (failures - 1);
	sigset_t ends;

	time.tv_sec = ms / 1000;
	time.tv_nsec = ms % 1000 * 1000000;
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	if (sigtimedwait(&ends, NULL, &time) > 0)
		_exit(EXIT_SUCCESS);
}

static void become_agent(const struct keeper *keeper)
{
	const struct keeper_note *note = keeper->note;
	const char *path = *note->path && !keeper->path_fixed ? note->path : keeper->path;
	int failures = note->serving ? 0 : keeper->failures + 1, config_fd;
	char why[64];

	if (note->ending)
		_exit(EXIT_SUCCESS);
	supervisor_announce();
	if (failures >= FAILURES_MAX) {
		kv_err("%d agents in a row ended before they served: giving up", failures);
		_exit(EXIT_FAILURE);
	}
	if (failures)
		delay(failures);
	config_fd = write_config(keeper->config);
	keep_descriptors(config_fd);
	snprintf(why, sizeof(why), "%s %d %d", note->restart ? "restart" : "crash", failures,
		 config_fd);
	setenv(ENV_WHY, why, 1);
	if (note->restart) {
		setenv(ENV_PATH, path, 1);
		execv(path, keeper->argv);
		kv_err("%s: cannot be executed: %s: the same program again", path, strerror(errno));
		setenv(ENV_PATH, keeper->path, 1);
	} else {
		kv_warn("the agent has died: another one takes over");
	}
	execv(SELF, keeper->argv);
	kv_err("%s: cannot be executed: %s", keeper->path, strerror(errno));
	_exit(EXIT_FAILURE);
}

/* What a child of fork() may do in a process of one thread may be done here too. */
static void keep(const struct keeper *keeper, pid_t agent)
{
	struct pollfd poll_agent = {.fd = keeper->agent_fd, .events = POLLIN};
	static const struct timespec now;
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_NAME, "kvsteer-keeper"); /* who kills all kvsteerd does not mean this one */
	/* Not by PR_SET_PDEATHSIG: that is a signal from the agent, which may be another user's by
	 * then and has no right to send one. */
	while (getppid() == agent)
		poll(&poll_agent, 1, -1);
	while (sigtimedwait(&all, NULL, &now) > 0)
		; /* what was not meant for an agent to come */
	become_agent(keeper);
}

/* ---- the agent's side ---------------------------------------------------------------- */

int keeper_start(struct keeper *keeper, const struct kv_config *config)
{
	pid_t agent = getpid(), pid;
	int err;

	keeper->config = config;
	if (keeper->agent_fd <= 0)
		keeper->agent_fd = syscall(SYS_pidfd_open, agent, 0);
	if (keeper->agent_fd < 0) {
		err = -errno;
		kv_err("cannot make the keeper's process: %s", strerror(-err));
		return err;
	}
	pid = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
	if (!pid)
		keep(keeper, agent);
	if (pid < 0) {
		err = -errno;
		kv_err("cannot make the keeper's process: %s", strerror(-err));
		return err;
	}
	keeper->pid = pid;
	return 0;
}

void keeper_serving(struct keeper *keeper)
{
	keeper->note->serving = true;
}

void keeper_ending(struct keeper *keeper)
{
	keeper->note->ending = true;
}

void keeper_restart(struct keeper *keeper, const char *path)
{
	snprintf(keeper->note->path, sizeof(keeper->note->path), "%s", path ? path : "");
	keeper->note->restart = true;
}

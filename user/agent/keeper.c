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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/keeper.h"
#include "agent/supervisor.h"
#include "common/cleanup.h"
#include "common/log.h"

#define ENV_PATH "KVSTEERD_PATH"
/* "crash FAILURES CONFIG-FD", "restart FAILURES CONFIG-FD PROGRAM-FD" */
#define ENV_WHY "KVSTEERD_START"
#define FAILURES_MAX 5
#define FAILURE_DELAY_MS 200 /* twice as long after each */
#define SELF "/proc/self/exe"

/* Of a configuration: what is in force may be another than what the keeper has seen. */
struct live {
	__typeof__(((struct kv_config *)0)->timeouts) timeouts;
	__typeof__(((struct kv_config *)0)->limits) limits;
	bool watch;
	struct kv_addr http;
	struct kv_config_follow follow;
	struct kv_config_health health;
	__u64 file;
};

/* What the agent tells its keeper, in memory that both have. */
struct keeper_note {
	struct live live[2]; /* the last one told is whole, whenever the agent dies … */
	unsigned int lives;  /* … with this number; 0: none yet */
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
	keeper->before_fd = -1;
	if (!text)
		return;
	if (sscanf(text, "crash %d %d", &keeper->failures, &keeper->config_fd) == 2)
		keeper->why = KEEPER_CRASH;
	else if (sscanf(text, "restart %d %d %d", &keeper->failures, &keeper->config_fd,
			&keeper->before_fd) == 3)
		keeper->why = KEEPER_RESTART;
	if (keeper->config_fd >= 0)
		fcntl(keeper->config_fd, F_SETFD, FD_CLOEXEC);
	if (keeper->before_fd >= 0)
		fcntl(keeper->before_fd, F_SETFD, FD_CLOEXEC);
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

bool keeper_keeps(int fd)
{
	int protocol = 0;
	socklen_t len = sizeof(protocol);

	return !getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) && protocol == IPPROTO_TCP;
}

/* TCP sockets outlive exec, and the configuration; all else was the dead agent's own. */
static void keep_descriptors(int config_fd, int before_fd)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;

	close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
	while (dir && (entry = readdir(dir))) {
		int fd = atoi(entry->d_name);

		if (fd > 2 && (fd == config_fd || fd == before_fd || keeper_keeps(fd)))
			fcntl(fd, F_SETFD, 0);
	}
}

/* An agent of fewer rights would get a port by its successor that it could not have itself. */
static bool http_believed(const struct keeper *keeper, const struct kv_addr *http)
{
	return !keeper->path_fixed || !http->port || ntohs(http->port) >= IPPORT_RESERVED;
}

static __u64 overlay(const struct keeper *keeper, struct kv_config *config)
{
	unsigned int lives = __atomic_load_n(&keeper->note->lives, __ATOMIC_ACQUIRE);
	struct live live = keeper->note->live[lives % 2];

	if (!lives)
		return 0;
	live.limits.events = config->limits.events;
	live.follow.health_path[sizeof(live.follow.health_path) - 1] = 0;
	config->timeouts = live.timeouts;
	config->limits = live.limits;
	config->watch = live.watch;
	config->follow = live.follow;
	config->health = live.health;
	if (http_believed(keeper, &live.http))
		config->http = live.http;
	return live.file;
}

/* The agent before may be one that an attacker has made his: what it could have written is not
 * believed, but our own copy; besides what it could have changed by itself as well. */
static int write_config(const struct keeper *keeper)
{
	int fd = memfd_create("kvsteerd-config", MFD_CLOEXEC);
	struct kv_config config = *keeper->config;
	__u64 file = overlay(keeper, &config);

	config.services = NULL;
	config.n_services = 0;
	if (fd >= 0 && (pwrite(fd, &config, sizeof(config), 0) != sizeof(config) ||
			pwrite(fd, &file, sizeof(file), sizeof(config)) != sizeof(file))) {
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

/* Returns only if it cannot be executed. */
static void become(const struct keeper *keeper, const char *program, const char *why, int failures,
		   int config_fd, int before_fd)
{
	char text[64];

	keep_descriptors(config_fd, before_fd);
	snprintf(text, sizeof(text), "%s %d %d %d", why, failures, config_fd, before_fd);
	setenv(ENV_WHY, text, 1);
	execv(program, keeper->argv);
}

static void become_next(const struct keeper *keeper, const char *path, int config_fd)
{
	int before_fd = open(SELF, O_RDONLY);

	setenv(ENV_PATH, path, 1);
	become(keeper, path, "restart", 0, config_fd, before_fd);
	setenv(ENV_PATH, keeper->path, 1);
}

/* The program of a restart does not get to serve: the one before does, with its own
 * configuration. */
static void become_former(const struct keeper *keeper)
{
	char path[64];

	kv_err("%s does not get to serve: the program before takes over again", keeper->path);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", keeper->before_fd);
	become(keeper, path, "crash", 1, keeper->config_fd, -1);
}

static void become_agent(const struct keeper *keeper)
{
	const struct keeper_note *note = keeper->note;
	const char *path = *note->path && !keeper->path_fixed ? note->path : keeper->path;
	int failures = note->serving ? 0 : keeper->failures + 1, config_fd;

	if (note->ending)
		_exit(EXIT_SUCCESS);
	supervisor_announce();
	if (failures >= FAILURES_MAX) {
		kv_err("%d agents in a row ended before they served: giving up", failures);
		_exit(EXIT_FAILURE);
	}
	if (failures)
		delay(failures);
	if (failures && keeper->before_fd >= 0)
		become_former(keeper);
	config_fd = write_config(keeper);
	if (note->restart) {
		become_next(keeper, path, config_fd);
		kv_err("%s: cannot be executed: %s: the same program again", path, strerror(errno));
	} else {
		kv_warn("the agent has died: another one takes over");
	}
	become(keeper, SELF, "crash", failures, config_fd, -1);
	kv_err("%s: cannot be executed: %s", keeper->path, strerror(errno));
	_exit(EXIT_FAILURE);
}

static bool ended(int pidfd)
{
	struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};

	return poll(&poll_fd, 1, 0) == 1;
}

/* What a child of fork() may do in a process of one thread may be done here too. */
static void keep(const struct keeper *keeper, pid_t agent, int first_fd)
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
	if (first_fd >= 0 && !ended(first_fd))
		_exit(EXIT_SUCCESS);
	while (sigtimedwait(&all, NULL, &now) > 0)
		; /* what was not meant for an agent to come */
	become_agent(keeper);
}

/* ---- the agent's side ---------------------------------------------------------------- */

static int keeper_make(struct keeper *keeper, int i, int first_fd)
{
	pid_t agent = getpid(), pid;

	pid = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
	if (!pid)
		keep(keeper, agent, first_fd);
	if (pid < 0)
		return -errno;
	keeper->pid[i] = pid;
	return 0;
}

int keeper_start(struct keeper *keeper, const struct kv_config *config)
{
	int first_fd, err;

	keeper->config = config;
	keeper->agent_fd = syscall(SYS_pidfd_open, getpid(), 0);
	err = keeper->agent_fd < 0 ? -errno : keeper_make(keeper, 0, -1);
	if (!err) {
		first_fd = syscall(SYS_pidfd_open, keeper->pid[0], 0);
		err = first_fd < 0 ? -errno : keeper_make(keeper, 1, first_fd);
	}
	if (err)
		kv_err("cannot make the keeper's process: %s", strerror(-err));
	return err;
}

bool keeper_reap(struct keeper *keeper)
{
	bool gone = false;

	for (int i = 0; i < KEEPERS; i++)
		if (keeper->pid[i] && waitpid(keeper->pid[i], NULL, WNOHANG) == keeper->pid[i]) {
			keeper->pid[i] = 0;
			gone = true;
		}
	return gone;
}

bool keeper_lives(const struct keeper *keeper)
{
	return keeper->pid[0] || keeper->pid[1];
}

void keeper_tell(struct keeper *keeper, const struct kv_config *config, __u64 file)
{
	unsigned int next = keeper->note->lives + 1;

	keeper->note->live[next % 2] = (struct live){
		.timeouts = config->timeouts,
		.limits = config->limits,
		.watch = config->watch,
		.http = config->http,
		.follow = config->follow,
		.health = config->health,
		.file = file,
	};
	__atomic_store_n(&keeper->note->lives, next, __ATOMIC_RELEASE);
}

void keeper_serving(struct keeper *keeper)
{
	keeper->note->serving = true;
	if (keeper->config_fd >= 0)
		close(keeper->config_fd);
	if (keeper->before_fd >= 0)
		close(keeper->before_fd);
	keeper->config_fd = keeper->before_fd = -1;
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

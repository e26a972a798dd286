// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/supervisor.h"
#include "common/log.h"

#define ENV_SUPERVISOR "KVSTEERD_SUPERVISOR"
#define ANNOUNCE SIGUSR1

static void signals_set(sigset_t *set)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, ANNOUNCE};

	sigemptyset(set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaddset(set, signals[i]);
}

void signals_block(void)
{
	sigset_t set;

	signals_set(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

void signals_unblock(void)
{
	sigset_t none;

	/* All of them: a keeper has blocked every one. */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

bool supervised(void)
{
	const char *pid = getenv(ENV_SUPERVISOR);

	return pid && atol(pid) == getppid();
}

pid_t supervisor_pid(void)
{
	return supervised() ? getppid() : getpid();
}

void supervisor_announce(void)
{
	if (supervised())
		kill(getppid(), ANNOUNCE);
}

pid_t supervisor_fork(void)
{
	char text[16];
	pid_t pid;

	/* A dead agent's keeper becomes our child. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return -errno;
	snprintf(text, sizeof(text), "%d", getpid());
	setenv(ENV_SUPERVISOR, text, 1);
	pid = fork();
	return pid < 0 ? -errno : pid;
}

/* Reaps; true when no child is left. status is the last agent's. */
static bool reap(pid_t *agent, int *status)
{
	int s;
	pid_t pid;

	while ((pid = waitpid(-1, &s, WNOHANG)) > 0) {
		if (pid != *agent)
			continue;
		*agent = 0;
		*status = s;
	}
	return pid < 0 && errno == ECHILD;
}

int supervise(pid_t agent)
{
	int status = 0, passed = 0;
	sigset_t set;
	siginfo_t info;

	close_range(3, ~0u, 0);
	signals_set(&set);
	for (;;) {
		int sig = sigwaitinfo(&set, &info);

		if (sig < 0)
			continue;
		if (sig == SIGCHLD) {
			if (reap(&agent, &status))
				break;
			continue;
		}
		if (sig == ANNOUNCE) {
			agent = info.si_pid;
			sig = passed; /* the one before may have died over it */
		} else if (sig != SIGHUP) {
			passed = sig;
		}
		if (sig && agent)
			kill(agent, sig);
	}
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	kv_err("the agent was killed by signal %d", WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "agent/manager.h"
#include "common/cleanup.h"
#include "common/log.h"

#define SYSTEMD "org.freedesktop.systemd1"
#define BUS_WAIT_MS 2000
#define EXIT_RESTART 3
#define BARRIER_WAIT_US 5000000
#define FDS_MAX 253 /* SCM_MAX_FD: in one message */
#define NAME "kvsteer"

static void bus_cleanup(sd_bus **bus)
{
	sd_bus_flush_close_unref(*bus);
}

static void reply_cleanup(sd_bus_message **reply)
{
	sd_bus_message_unref(*reply);
}

/* The object of the job that our unit is in: a stop is a part of a restart. */
static int find_job(sd_bus *bus, char **ret_job)
{
	_cleanup_(reply_cleanup) sd_bus_message *unit = NULL, *reply = NULL;
	const char *path, *job;
	uint32_t id;
	int err;

	/* pid 0: the caller's */
	err = sd_bus_call_method(bus, SYSTEMD, "/org/freedesktop/systemd1", SYSTEMD ".Manager",
				 "GetUnitByPID", NULL, &unit, "u", 0);
	if (err >= 0)
		err = sd_bus_message_read(unit, "o", &path);
	if (err >= 0)
		err = sd_bus_get_property(bus, SYSTEMD, path, SYSTEMD ".Unit", "Job", NULL, &reply,
					  "(uo)");
	if (err >= 0)
		err = sd_bus_message_read(reply, "(uo)", &id, &job);
	if (err < 0)
		return err;
	*ret_job = strdup(job);
	return !*ret_job ? -ENOMEM : id ? 0 : -ENOENT;
}

/* Exit code of the process that asks. */
static int ask(void)
{
	_cleanup_free_ char *job = NULL, *type = NULL;
	_cleanup_(bus_cleanup) sd_bus *bus = NULL;
	int err = sd_bus_open_system(&bus);

	if (err >= 0)
		err = find_job(bus, &job);
	if (err >= 0)
		err = sd_bus_get_property_string(bus, SYSTEMD, job, SYSTEMD ".Job", "JobType", NULL,
						 &type);
	if (err < 0 && err != -ENOENT)
		kv_info("cannot ask the service manager whether this is a restart: %s",
			strerror(-err));
	return err >= 0 && !strcmp(type, "restart") ? EXIT_RESTART : EXIT_SUCCESS;
}

/* By a process of its own: a bus that hangs is not to hold up the agent for longer than this. */
bool manager_restarts(void)
{
	siginfo_t ended = {};
	struct pollfd polls;
	pid_t pid;

	if (!getenv("NOTIFY_SOCKET"))
		return false;
	pid = fork();
	if (!pid)
		_exit(ask());
	if (pid < 0)
		return false;
	polls = (struct pollfd){.fd = syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
	while (poll(&polls, 1, BUS_WAIT_MS) < 0 && errno == EINTR)
		;
	kill(pid, SIGKILL);
	while (waitid(P_PID, pid, &ended, WEXITED) < 0 && errno == EINTR)
		;
	if (polls.fd >= 0)
		close(polls.fd);
	return ended.si_code == CLD_EXITED && ended.si_status == EXIT_RESTART;
}

int manager_store(const int *fds, size_t n)
{
	int err;

	for (size_t i = 0; i < n; i += FDS_MAX) {
		size_t some = n - i < FDS_MAX ? n - i : FDS_MAX;

		err = sd_pid_notify_with_fds(0, 0, "FDSTORE=1\nFDNAME=" NAME, fds + i, some);
		if (err <= 0)
			return err ? err : -ENOTCONN;
	}
	err = sd_notify_barrier(0, BARRIER_WAIT_US);
	return err < 0 ? err : 0;
}

void manager_forget(void)
{
	sd_notify(0, "FDSTOREREMOVE=1\nFDNAME=" NAME);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Capabilities by the system calls themselves: three numbers to keep need no library that parses
 * their names.
 *
 *	start	tc programs verify with CAP_BPF, CAP_PERFMON (without it the verifier adds checks
 *		against speculation, and refuses ours) and CAP_NET_ADMIN; listening below port 1024
 *	serve	the same without CAP_PERFMON: filters on new interfaces, new backends and services,
 *		bpf(2) at all (kernel.unprivileged_bpf_disabled)
 *
 * Files need none: the pins, the locks and the control socket are root's, and so is the agent until
 * it becomes its user; then remover.c takes them away at the end.
 */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/pin.h"
#include "agent/privileges.h"
#include "agent/remover.h"
#include "common/log.h"

#define CAP(name) (1ull << CAP_##name)
#define SERVE (CAP(NET_ADMIN) | CAP(BPF) | CAP(NET_BIND_SERVICE))
/* SETPCAP: to take from the bounding set, once more. DAC_READ_SEARCH: who starts a new agent after
 * a crash reads the configuration and the program again, wherever root was told that they are. */
#define START (SERVE | CAP(PERFMON) | CAP(SETPCAP) | CAP(DAC_READ_SEARCH))
/* KILL: who watches the agent must reach it by a signal, whoever it has become. */
#define BECOME (CAP(SETUID) | CAP(SETGID) | CAP(KILL))

/* ---- capabilities -------------------------------------------------------------------- */

static int caps_get(__u64 *ret_permitted)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {};

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	*ret_permitted = (__u64)data[1].permitted << 32 | data[0].permitted;
	return 0;
}

static int caps_set(__u64 permitted, __u64 inheritable)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {
		{permitted, permitted, inheritable},
		{permitted >> 32, permitted >> 32, inheritable >> 32},
	};

	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

/* Who has no CAP_SETPCAP keeps its bounding set: with no new privileges no file can make use of it,
 * and a service manager has made it small before. */
static int caps_bound(__u64 keep)
{
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
		if (keep >> cap & 1 || !prctl(PR_CAPBSET_READ, cap, 0, 0, 0))
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return errno == EPERM ? 0 : -errno;
	}
	return 0;
}

/* Who is not root and was started with ambient capabilities hands them on by exec. */
static __u64 caps_ambient(void)
{
	__u64 caps = 0;

	for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) == 1)
			caps |= 1ull << cap;
	return caps;
}

/* Those of these that are there. Ambient ones go with the inheritable. */
static int caps_keep(__u64 keep, __u64 inheritable)
{
	__u64 permitted = 0;
	int err = caps_get(&permitted);

	return err ? err : caps_set(permitted & keep, permitted & keep & inheritable);
}

const char *privileges_user(const struct kv_config *config)
{
	const char *name = *config->user ? config->user : getenv("KVSTEER_USER");

	return name && *name ? name : NULL;
}

/* ---- the two steps -------------------------------------------------------------------- */

static const struct passwd *find_user(const char *name)
{
	const struct passwd *user;

	errno = 0;
	user = getpwnam(name);
	if (!user)
		kv_err("user %s: %s", name,
		       errno ? strerror(errno)
			     : "there is none: adduser --system, or leave it out");
	return user;
}

static int become(const char *name)
{
	const struct passwd *user = find_user(name);
	int err = 0;

	if (!user)
		return -ENOENT;
	/* Capabilities outlive the change from root, but not as effective ones. */
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setgroups(0, NULL) < 0 ||
	    setresgid(user->pw_gid, user->pw_gid, user->pw_gid) < 0 ||
	    setresuid(user->pw_uid, user->pw_uid, user->pw_uid) < 0) {
		err = -errno;
		kv_err("user %s: cannot become it: %s: run kvsteerd as root, or leave it out", name,
		       strerror(-err));
	}
	return err;
}

int privileges_limit(const struct kv_config *config)
{
	const char *user = privileges_user(config);
	__u64 keep = START | (user ? BECOME : 0);
	int err;

	if (user && !find_user(user))
		return -ENOENT;
	/* May have to mount. */
	err = pin_prepare(config->pin);
	if (err)
		return err;
	err = caps_bound(keep);
	if (!err)
		err = caps_keep(keep, caps_ambient());
	if (!err && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		err = -errno;
	if (err)
		kv_err("cannot give up privileges: %s", strerror(-err));
	return err;
}

int privileges_drop(const struct kv_config *config)
{
	const char *user = privileges_user(config);
	int err = caps_bound(SERVE);

	if (!err && user) {
		err = remover_start(config);
		if (!err)
			err = become(user);
		if (err)
			return err;
	}
	if (!err)
		err = caps_keep(SERVE, 0);
	if (err)
		kv_err("cannot give up privileges: %s", strerror(-err));
	return err;
}

int privileges_none(void)
{
	int err = caps_bound(0);

	return err ? err : caps_keep(0, 0);
}

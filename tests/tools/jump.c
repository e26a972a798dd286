// SPDX-License-Identifier: BSD-2-Clause
/*
 * Preloaded into a process: its wall clock jumps, an hour ahead or back, at each reading. The
 * monotonic clocks stay right.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

static time_t jump(void)
{
	static atomic_uint readings;

	return atomic_fetch_add(&readings, 1) % 2 ? 3600 : -3600;
}

int clock_gettime(clockid_t id, struct timespec *t)
{
	static int (*real)(clockid_t, struct timespec *);
	int err;

	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	err = real(id, t);
	if (!err && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_TAI))
		t->tv_sec += jump();
	return err;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec t;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &t);
	tv->tv_sec = t.tv_sec;
	tv->tv_usec = t.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *ret)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	if (ret)
		*ret = t.tv_sec;
	return t.tv_sec;
}

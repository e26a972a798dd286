// SPDX-License-Identifier: BSD-2-Clause
/*
 * CPU time of other processes and of the whole machine.
 *
 * Processes: the scheduler's own sum in nanoseconds for every thread
 * (/proc/PID/task/TID/schedstat), children included. utime and stime of /proc/PID/stat come in
 * steps of 10 ms. Machine: what the idle time of /proc/stat leaves of the clock. It holds the
 * client and the engines, and the work of the kernel for packets, whoever happened to be running at
 * the time.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load.h"

#define MAX_PIDS 256

static int add_thread(struct load_cpu *c, int pid, int tid)
{
	char path[64];
	unsigned long long ns;
	void *grown;
	FILE *f;
	int ok;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, tid);
	f = fopen(path, "re");
	if (!f)
		return 0; /* it has ended meanwhile */
	ok = fscanf(f, "%llu", &ns) == 1;
	fclose(f);
	if (!ok)
		return 0;
	grown = reallocarray(c->threads, c->n + 1, sizeof(*c->threads));
	if (!grown)
		return -ENOMEM;
	c->threads = grown;
	c->threads[c->n].tid = tid;
	c->threads[c->n++].ns = ns;
	return 0;
}

static void add_children(int pid, int tid, int *pids, size_t *n)
{
	char path[64];
	FILE *f;
	int child;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, tid);
	f = fopen(path, "re");
	if (!f)
		return;
	while (*n < MAX_PIDS && fscanf(f, "%d", &child) == 1)
		pids[(*n)++] = child;
	fclose(f);
}

static int read_process(struct load_cpu *c, int *pids, size_t *n_pids, size_t i)
{
	char path[64];
	struct dirent *e;
	int err = 0, tid;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pids[i]);
	d = opendir(path);
	if (!d)
		return 0;
	while (!err && (e = readdir(d))) {
		tid = atoi(e->d_name);
		if (!tid)
			continue;
		err = add_thread(c, pids[i], tid);
		add_children(pids[i], tid, pids, n_pids);
	}
	closedir(d);
	return err;
}

static int read_idle(uint64_t *ret_ns)
{
	unsigned long long user, nice, sys, idle, iowait, irq, softirq, steal;
	FILE *f = fopen("/proc/stat", "re");
	int n;

	if (!f)
		return -errno;
	n = fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &sys, &idle,
		   &iowait, &irq, &softirq, &steal);
	fclose(f);
	if (n != 8)
		return -EBADMSG;
	*ret_ns = (idle + iowait + steal) * (1000000000ull / sysconf(_SC_CLK_TCK));
	return 0;
}

int load_cpu_read(const int *pids, unsigned int n, struct load_cpu *ret)
{
	int all[MAX_PIDS];
	size_t n_all = n;
	int err;

	memset(ret, 0, sizeof(*ret));
	memcpy(all, pids, n * sizeof(*pids));
	for (size_t i = 0; i < n_all; i++) {
		err = read_process(ret, all, &n_all, i);
		if (err)
			return err;
	}
	ret->now_ns = load_now();
	return read_idle(&ret->idle_ns);
}

void load_cpu_free(struct load_cpu *c)
{
	free(c->threads);
}

double load_cpu_watched(const struct load_cpu *from, const struct load_cpu *to)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < to->n; i++) {
		sum += to->threads[i].ns;
		for (size_t j = 0; j < from->n; j++)
			if (from->threads[j].tid == to->threads[i].tid)
				sum -= from->threads[j].ns;
	}
	return sum / 1e9;
}

double load_cpu_busy(const struct load_cpu *from, const struct load_cpu *to)
{
	double wall = (to->now_ns - from->now_ns) / 1e9 * sysconf(_SC_NPROCESSORS_ONLN);

	return wall - (to->idle_ns - from->idle_ns) / 1e9;
}

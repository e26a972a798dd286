// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <yyjson.h>

#include "bench.h"

static const char usage[] =
	"usage: kv-bench-events [-n BLOCKS] [-s SECONDS] [-o FILE]\n"
	"       kv-bench-events watch …\n"
	"How fast events of engines are applied, in how much memory, how soon. -n: unique blocks\n"
	"that are stored and removed (10000000, at least 2000000); -s: of each latency run (3);\n"
	"-o: the JSON file whose \"events\" are set. Exits 1 if something that is to be reached "
	"is\n"
	"not.\n";

/* With fewer nothing is removed, and there is no first million to compare with. */
#define BLOCKS_MIN 2000000

double seconds_cpu(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

double seconds_wall(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

uint64_t bytes_resident(void)
{
	unsigned long long total, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f && fscanf(f, "%llu %llu", &total, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return resident * sysconf(_SC_PAGESIZE);
}

void ignore_gone(void *ctx, uint64_t key, uint32_t backend)
{
	(void)ctx;
	(void)key;
	(void)backend;
}

void ignore_cache(void *ctx, uint32_t backend, uint32_t rank, bool flag)
{
	(void)ctx;
	(void)backend;
	(void)rank;
	(void)flag;
}

void result_add(struct results *r, const char *name, double value, const char *unit, int sense,
		double limit)
{
	r->row[r->n++] = (struct result){name, unit, value, limit, sense};
}

static bool reached(const struct result *r)
{
	return !r->sense || (r->sense > 0 ? r->value >= r->limit : r->value <= r->limit);
}

static int print(const struct results *r)
{
	int missed = 0;

	printf("| what | value | | to reach | |\n|---|---|---|---|---|\n");
	for (int i = 0; i < r->n; i++) {
		const struct result *row = &r->row[i];

		printf("| %s | %.*f | %s |", row->name, row->value < 1000 ? 2 : 0, row->value,
		       row->unit);
		if (row->sense)
			printf(" %s %.0f | %s |\n", row->sense > 0 ? "≥" : "≤", row->limit,
			       reached(row) ? "ok" : "NOT REACHED");
		else
			printf(" | |\n");
		missed += !reached(row);
	}
	return missed;
}

/* Sets "events" in that file and keeps what else is in it. */
static int write_file(const char *path, const struct results *r)
{
	yyjson_doc *old = yyjson_read_file(path, 0, NULL, NULL);
	yyjson_mut_doc *doc = old ? yyjson_doc_mut_copy(old, NULL) : yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_doc_get_root(doc), *rows = yyjson_mut_arr(doc);
	bool ok;

	if (!yyjson_mut_is_obj(root)) {
		root = yyjson_mut_obj(doc);
		yyjson_mut_doc_set_root(doc, root);
	}
	for (int i = 0; i < r->n; i++) {
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(doc, rows);
		const char *name = r->row[i].name;

		yyjson_mut_obj_add_str(doc, o, "name", name + strspn(name, " "));
		yyjson_mut_obj_add_real(doc, o, "value", r->row[i].value);
		yyjson_mut_obj_add_str(doc, o, "unit", r->row[i].unit);
		if (!r->row[i].sense)
			continue;
		yyjson_mut_obj_add_real(doc, o, r->row[i].sense > 0 ? "at_least" : "at_most",
					r->row[i].limit);
		yyjson_mut_obj_add_bool(doc, o, "reached", reached(&r->row[i]));
	}
	yyjson_mut_obj_remove_key(root, "events");
	yyjson_mut_obj_add_val(doc, root, "events", rows);
	ok = yyjson_mut_write_file(path, doc, YYJSON_WRITE_PRETTY, NULL, NULL);
	yyjson_mut_doc_free(doc);
	yyjson_doc_free(old);
	return ok ? 0 : -EIO;
}

int main(int argc, char **argv)
{
	uint64_t blocks = 10000000;
	const char *path = NULL;
	struct results r = {0};
	double seconds = 3;
	int o, err;

	if (argc > 1 && !strcmp(argv[1], "watch"))
		return watch(argc - 1, argv + 1);
	while ((o = getopt(argc, argv, "n:s:o:h")) != -1) {
		if (o == 'n')
			blocks = strtoull(optarg, NULL, 10);
		else if (o == 's')
			seconds = strtod(optarg, NULL);
		else if (o == 'o')
			path = optarg;
		else
			return fputs(usage, o == 'h' ? stdout : stderr), o == 'h' ? 0 : 2;
	}
	if (blocks < BLOCKS_MIN)
		return fputs(usage, stderr), 2;
	err = bench_apply(&r, blocks);
	if (!err)
		err = bench_latency(&r, seconds);
	if (err) {
		fprintf(stderr, "kv-bench-events: %s\n", strerror(-err));
		return 1;
	}
	err = print(&r);
	if (path && write_file(path, &r)) {
		fprintf(stderr, "kv-bench-events: cannot write %s\n", path);
		return 1;
	}
	return err > 0;
}

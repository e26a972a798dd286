// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>
#include "report.h"

#define MAX_ENGINES 256

struct engine {
	const char *name;
	uint64_t requests;
	uint64_t prompt_tokens;
	uint64_t cached_tokens;
};

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t n, double q)
{
	size_t i = q * n;

	return n ? sorted[i < n ? i : n - 1] : 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct engine *)a)->name, ((const struct engine *)b)->name);
}

static unsigned int sum_engines(const struct report *r, struct engine *ret)
{
	unsigned int n = 0, e;

	for (size_t i = 0; i < r->n; i++) {
		const struct outcome *o = &r->outcomes[i];

		if (o->error)
			continue;
		for (e = 0; e < n && strcmp(ret[e].name, o->engine);)
			e++;
		if (e == MAX_ENGINES)
			continue;
		if (e == n)
			ret[n++] = (struct engine){.name = o->engine};
		ret[e].requests++;
		ret[e].prompt_tokens += o->prompt_tokens;
		ret[e].cached_tokens += o->cached_tokens;
	}
	qsort(ret, n, sizeof(*ret), by_name);
	return n;
}

/* Prefill work is what an engine has to compute: prompt tokens it did not have. */
static double busiest_over_mean(const struct report *r, const struct engine *engines,
				unsigned int n)
{
	double most = 0, sum = 0;

	for (unsigned int e = 0; e < n; e++) {
		double work = engines[e].prompt_tokens - engines[e].cached_tokens;

		most = fmax(most, work);
		sum += work;
	}
	return sum > 0 ? most * (r->engines > n ? r->engines : n) / sum : 0;
}

/* To microseconds: more is not measured here. */
static double rounded(double x)
{
	return round(x * 1e6) / 1e6;
}

static void add_times(yyjson_mut_doc *doc, yyjson_mut_val *root, const char *const keys[3],
		      double *times, size_t n)
{
	static const double quantiles[3] = {0.5, 0.9, 0.99};

	qsort(times, n, sizeof(*times), ascending);
	for (int i = 0; i < 3; i++)
		yyjson_mut_obj_add_real(doc, root, keys[i],
					rounded(quantile(times, n, quantiles[i])));
}

static void add_errors(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct report *r)
{
	yyjson_mut_val *kinds = yyjson_mut_obj_add_obj(doc, root, "errors_by_kind");

	for (size_t i = 0; i < r->n; i++) {
		const char *error = r->outcomes[i].error;
		yyjson_mut_val *count = error ? yyjson_mut_obj_get(kinds, error) : NULL;

		if (count)
			yyjson_mut_set_uint(count, yyjson_mut_get_uint(count) + 1);
		else if (error)
			yyjson_mut_obj_add_uint(doc, kinds, error, 1);
	}
}

static void add_engines(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct engine *engines,
			unsigned int n)
{
	yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "engines");

	for (unsigned int e = 0; e < n; e++) {
		yyjson_mut_val *one = yyjson_mut_arr_add_obj(doc, list);

		yyjson_mut_obj_add_str(doc, one, "name", engines[e].name);
		yyjson_mut_obj_add_uint(doc, one, "requests", engines[e].requests);
		yyjson_mut_obj_add_uint(doc, one, "prompt_tokens", engines[e].prompt_tokens);
		yyjson_mut_obj_add_uint(doc, one, "cached_tokens", engines[e].cached_tokens);
	}
}

static void add_summary(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct report *r,
			double *ttft, double *total)
{
	static const char *const ttft_keys[3] = {"ttft_p50_s", "ttft_p90_s", "ttft_p99_s"};
	static const char *const total_keys[3] = {"total_p50_s", "total_p90_s", "total_p99_s"};
	struct engine engines[MAX_ENGINES];
	unsigned int n_engines = sum_engines(r, engines);
	uint64_t prompt = 0, cached = 0, answer = 0;
	double late = 0, end = 0;
	size_t good = 0;

	for (size_t i = 0; i < r->n; i++) {
		const struct outcome *o = &r->outcomes[i];

		late = fmax(late, o->late_s);
		end = fmax(end, o->due_s + o->total_s);
		if (o->error)
			continue;
		ttft[good] = o->ttft_s;
		total[good++] = o->total_s;
		prompt += o->prompt_tokens;
		cached += o->cached_tokens;
		answer += o->answer_tokens;
	}
	yyjson_mut_obj_add_str(doc, root, "name", r->name);
	yyjson_mut_obj_add_uint(doc, root, "requests", r->n);
	yyjson_mut_obj_add_uint(doc, root, "errors", r->n - good);
	yyjson_mut_obj_add_real(doc, root, "hit_rate",
				rounded(prompt ? (double)cached / prompt : 0));
	add_times(doc, root, ttft_keys, ttft, good);
	add_times(doc, root, total_keys, total, good);
	yyjson_mut_obj_add_real(doc, root, "busiest_over_mean",
				rounded(busiest_over_mean(r, engines, n_engines)));
	yyjson_mut_obj_add_uint(doc, root, "prompt_tokens", prompt);
	yyjson_mut_obj_add_uint(doc, root, "cached_tokens", cached);
	yyjson_mut_obj_add_uint(doc, root, "answer_tokens", answer);
	yyjson_mut_obj_add_real(doc, root, "duration_s", rounded(end));
	yyjson_mut_obj_add_real(doc, root, "late_max_s", rounded(late));
	yyjson_mut_obj_add_uint(doc, root, "connections", r->connections);
	add_engines(doc, root, engines, n_engines);
	add_errors(doc, root, r);
}

int report_json(const struct report *r, FILE *out)
{
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc);
	double *ttft = calloc(r->n, sizeof(*ttft)), *total = calloc(r->n, sizeof(*total));
	int err = -ENOMEM;

	if (root && ttft && total) {
		yyjson_mut_doc_set_root(doc, root);
		add_summary(doc, root, r, ttft, total);
		err = yyjson_mut_write_fp(out, doc, YYJSON_WRITE_PRETTY, NULL, NULL) ? 0 : -EIO;
		fputc('\n', out);
	}
	yyjson_mut_doc_free(doc);
	free(ttft);
	free(total);
	return err;
}

void report_tsv(const struct report *r, FILE *out)
{
	fputs("due_s\tlate_s\tttft_s\ttotal_s\tengine\tprompt_tokens\tcached_tokens\t"
	      "answer_tokens\tstatus\terror\n",
	      out);
	for (size_t i = 0; i < r->n; i++) {
		const struct outcome *o = &r->outcomes[i];

		fprintf(out, "%.6f\t%.6f\t%.6f\t%.6f\t%s\t%u\t%u\t%u\t%d\t%s\n", o->due_s,
			o->late_s, o->ttft_s, o->total_s, o->engine, o->prompt_tokens,
			o->cached_tokens, o->answer_tokens, o->status, o->error ? o->error : "");
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/* Engines' metrics pages: each vector, in any pieces; what is absent; bytes that are no page. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "engines/metrics.h"

#define ALL_OF_VLLM                                                                                \
	(LOAD_RUNNING | LOAD_WAITING | LOAD_CACHE_USE | LOAD_BLOCK_SIZE | LOAD_BLOCKS |            \
	 LOAD_CAPACITY | LOAD_QUERIES | LOAD_HITS)
#define PAGE_MAX 65536

static struct metrics_reader reader;

static size_t load_vector(const char *name, char *page)
{
	char path[128];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "tests/vectors/metrics/%s.prom", name);
	f = fopen(path, "r");
	if (!f)
		return 0;
	n = fread(page, 1, PAGE_MAX, f);
	fclose(f);
	return n;
}

static int read_page(const char *page, size_t n, size_t piece, struct engine_load *ret)
{
	metrics_begin(&reader);
	for (size_t at = 0; at < n; at += piece)
		metrics_feed(&reader, page + at, n - at < piece ? n - at : piece);
	return metrics_end(&reader, ret);
}

static struct engine_load read_text(const char *text)
{
	struct engine_load load = {0};

	read_page(text, strlen(text), PAGE_MAX, &load);
	return load;
}

static const struct {
	const char *name;
	unsigned int samples; /* that are wanted */
	struct engine_load load;
} vectors[] = {
	{"vllm-new",
	 9,
	 {ALL_OF_VLLM, ENGINE_VLLM, 10, 2, 0.4125, 16, 27890, 446240, 1048576, 524288, 0}},
	{"vllm-old", 6, {ALL_OF_VLLM, ENGINE_VLLM, 4, 1, 0.25, 16, 2048, 32768, 1000, 250, 0}},
	{"sglang",
	 10,
	 {ALL_OF_VLLM & ~LOAD_QUERIES, ENGINE_SGLANG, 7, 3, 0.31, 64, 6218, 398000, 0, 94000, 0}},
	{"trtllm", 7, {ALL_OF_VLLM, ENGINE_TRTLLM, 3, 1, 0.5, 32, 4096, 131072, 12800, 9600, 0}},
};

static void same(const struct engine_load *a, const struct engine_load *b)
{
	CHECK_EQ(a->has, b->has);
	CHECK_EQ(a->kind, b->kind);
	CHECK_EQ(a->running, b->running);
	CHECK_EQ(a->waiting, b->waiting);
	CHECK(a->cache_use == b->cache_use);
	CHECK_EQ(a->block_size, b->block_size);
	CHECK_EQ(a->blocks, b->blocks);
	CHECK_EQ(a->capacity, b->capacity);
	CHECK_EQ(a->queries, b->queries);
	CHECK_EQ(a->hits, b->hits);
	CHECK(a->started == b->started);
}

static void every_vector(void)
{
	static char page[PAGE_MAX];
	struct engine_load load;

	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
		size_t n = load_vector(vectors[i].name, page);

		CHECK(n > 0);
		for (size_t piece = 1; piece <= n; piece += 1 + piece / 3) {
			CHECK_EQ(read_page(page, n, piece, &load), 0);
			same(&load, &vectors[i].load);
			CHECK_EQ(reader.prom.samples, vectors[i].samples);
			CHECK_EQ(reader.prom.malformed, 0);
		}
		/* its last newline, and CRs */
		CHECK_EQ(read_page(page, n - 1, n, &load), 0);
		same(&load, &vectors[i].load);
	}
}

static void lines(void)
{
	static const struct {
		const char *line;
		int malformed;
		int running; /* -1: absent */
	} cases[] = {
		{"vllm:num_requests_running 3", 0, 3},
		{"  vllm:num_requests_running\t{ a = \"b\" , } \t3  ", 0, 3},
		{"vllm:num_requests_running{} 3\r", 0, 3},
		{"vllm:num_requests_running{a=\"}\\\"\\\\\\n\"} 3 1754000000000", 0, 3},
		{"vllm:num_requests_running 3 # {trace=\"x\"} 1 2", 0, 3},
		{"vllm:num_requests_running 3e0", 0, 3},
		{"vllm:num_requests_running NaN", 0, -1},
		{"vllm:num_requests_running +Inf", 0, -1},
		{"vllm:num_requests_running -1", 0, -1},
		{"vllm:num_requests_running 1e300", 0, -1},
		{"vllm:num_requests_running_other 3", 0, -1},
		{"# vllm:num_requests_running 3", 0, -1},
		{"", 0, -1},
		{"vllm:num_requests_running", 1, -1},
		{"vllm:num_requests_running ", 1, -1},
		{"vllm:num_requests_running x", 1, -1},
		{"vllm:num_requests_running 3x", 1, -1},
		{"vllm:num_requests_running 3 x", 1, -1},
		{"vllm:num_requests_running@3", 1, -1},
		{"vllm:num_requests_running{a=\"b\"3", 1, -1},
		{"vllm:num_requests_running{a=\"b} 3", 1, -1},
		{"vllm:num_requests_running{a=\"b\\", 1, -1},
		{"vllm:num_requests_running{a} 3", 1, -1},
		{"vllm:num_requests_running{a=b} 3", 1, -1},
		{"vllm:num_requests_running{a=\"b\" c=\"d\"} 3", 1, -1},
		{"vllm:num_requests_running{=\"b\"} 3", 1, -1},
		{"{\"vllm:num_requests_running\"} 3", 1, -1},
		{"{\"loads\": []}", 1, -1},
		{"\x16\x03\x01\x02", 1, -1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char page[256];
		struct engine_load load;

		snprintf(page, sizeof(page), "vllm:num_requests_waiting 1\n%s\n", cases[i].line);
		load = read_text(page);
		if ((int)reader.prom.malformed != cases[i].malformed)
			printf("# %s\n", cases[i].line);
		CHECK_EQ(reader.prom.malformed, cases[i].malformed);
		CHECK_EQ(load.has, LOAD_WAITING | (cases[i].running < 0 ? 0 : (int)LOAD_RUNNING));
		CHECK_EQ(load.running, cases[i].running < 0 ? 0 : cases[i].running);
	}
}

static void nul_bytes(void)
{
	static const char page[] = "vllm:num_requests_running 3\0 4\nvllm:num_requests_waiting 1\n";
	struct engine_load load;

	CHECK_EQ(read_page(page, sizeof(page) - 1, 7, &load), 0);
	CHECK_EQ(load.has, LOAD_WAITING);
	CHECK_EQ(reader.prom.malformed, 1);
}

/* A line that just fits; one byte too many; far too many. */
static void long_lines(void)
{
	static const unsigned int too_many[] = {0, 1, PROM_LINE_MAX};
	static char page[3 * PROM_LINE_MAX];

	for (int i = 0; i < 3; i++) {
		unsigned int more = too_many[i];
		char *p = page + sprintf(page, "vllm:num_requests_running{a=\"");
		size_t fill = PROM_LINE_MAX - (p - page) - strlen("\"} 3") + more;
		struct engine_load load = {0};

		memset(p, 'x', fill);
		sprintf(p + fill, "\"} 3\nvllm:num_requests_waiting 1\n");
		read_page(page, strlen(page), 1000, &load);
		CHECK_EQ(load.has, LOAD_WAITING | (more ? 0 : LOAD_RUNNING));
		CHECK_EQ(load.running, more ? 0 : 3);
		CHECK_EQ(reader.prom.malformed, more > 0);
	}
}

static void many_labels(void)
{
	for (int n = PROM_LABELS_MAX; n <= PROM_LABELS_MAX + 1; n++) {
		char page[1024], *p = page + sprintf(page, "vllm:num_requests_running{");

		for (int i = 0; i < n; i++)
			p += sprintf(p, "l%d=\"%d\",", i, i);
		sprintf(p, "} 3\nvllm:num_requests_waiting 1\n");
		CHECK_EQ(read_text(page).has,
			 LOAD_WAITING | (n > PROM_LABELS_MAX ? 0 : LOAD_RUNNING));
	}
}

/* What was read of a page that is too long says too little: it does not count. */
static void huge_page(void)
{
	static const char row[] = "vllm:other_bucket{le=\"0.1\"} 1\n";
	struct engine_load load = {.running = 77};
	unsigned int refused = 0;

	metrics_begin(&reader);
	CHECK(metrics_feed(&reader, "vllm:num_requests_running 1\n", 28));
	for (size_t n = 0; n < 10u << 20; n += sizeof(row) - 1)
		refused += !metrics_feed(&reader, row, sizeof(row) - 1);
	CHECK(refused > 1000);
	CHECK_EQ(reader.prom.bytes, METRICS_PAGE_MAX);
	CHECK_EQ(metrics_end(&reader, &load), -EFBIG);
	CHECK_EQ(load.running, 77);
}

static void absent(void)
{
	struct engine_load load = {.running = 77};

	CHECK_EQ(read_page("", 0, 1, &load), -ENODATA);
	CHECK_EQ(read_page("python_info 1\nprocess_start_time_seconds 5\n", 43, 43, &load),
		 -ENODATA);
	CHECK_EQ(load.running, 77);
	load = read_text("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1\n");
	CHECK_EQ(load.has, LOAD_BLOCK_SIZE);
	load = read_text("vllm:prefix_cache_queries_total 0\n");
	CHECK_EQ(load.has, LOAD_QUERIES);
	load = read_text("vllm:kv_cache_usage_perc 7\nprocess_start_time_seconds 1.5e9\n");
	CHECK_EQ(load.has, LOAD_CACHE_USE | LOAD_STARTED);
	CHECK(load.cache_use == 1 && load.started == 1.5e9);
}

static void joins(void)
{
	struct engine_load load;

	/* while an engine has both, the new name counts, whichever comes first */
	load = read_text("vllm:gpu_prefix_cache_hits 1\nvllm:gpu_prefix_cache_hits_total 10\n"
			 "vllm:prefix_cache_hits_total 100\nvllm:gpu_cache_usage_perc 0.1\n"
			 "vllm:kv_cache_usage_perc 0\n");
	CHECK_EQ(load.hits, 100);
	CHECK((load.has & LOAD_CACHE_USE) && load.cache_use == 0);
	/* each rank has a cache of its own */
	load = read_text(
		"vllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"100\"} 1\n"
		"vllm:cache_config_info{block_size=\"32\",engine=\"1\",num_gpu_blocks=\"10\"} 1\n");
	CHECK_EQ(load.capacity, 1920);
	CHECK_EQ(load.blocks, 110);
	CHECK_EQ(load.block_size, 32);
	/* of tensor-parallel workers of one rank the greatest counts; ranks are added */
	load = read_text("sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"0\"} 5\n"
			 "sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"1\"} 5\n"
			 "sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"2\"} 4\n"
			 "sglang:num_running_reqs{dp_rank=\"1\",tp_rank=\"2\"} 2\n"
			 "sglang:num_running_reqs{dp_rank=\"-1\",tp_rank=\"2\"} 1\n");
	CHECK_EQ(load.running, 8);
	/* what is only waiting for another reason is in the sum already */
	load = read_text("vllm:num_requests_waiting 2\n"
			 "vllm:num_requests_waiting_by_reason{reason=\"capacity\"} 2\n");
	CHECK_EQ(load.waiting, 2);
	load = read_text(
		"nv_trt_llm_request_metrics{request_type=\"scheduled\"} 4\n"
		"nv_trt_llm_request_metrics{request_type=\"waiting\"} 2\n"
		"nv_trt_llm_request_metrics{request_type=\"max\"} 99\n"
		"nv_trt_llm_request_metrics 99\n"
		"nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"max\"} 8\n"
		"nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"tokens_per\"} 64\n"
		"nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\"} 0.5\n");
	CHECK_EQ(load.kind, ENGINE_TRITON);
	CHECK_EQ(load.running, 4);
	CHECK_EQ(load.waiting, 2);
	CHECK_EQ(load.capacity, 512);
	CHECK_STR(engine_kind_name(load.kind), "triton-trtllm");
	/* sums beyond what a double counts exactly stay where that ends */
	load = read_text("vllm:prefix_cache_hits_total{engine=\"0\"} 9e15\n"
			 "vllm:prefix_cache_hits_total{engine=\"1\"} 9e15\n");
	CHECK_EQ(load.hits, 9007199254740992ll);
}

int main(void)
{
	TEST("every vector, in any pieces")
	every_vector();
	TEST("lines: well-formed, malformed, of no interest")
	lines();
	TEST("NUL bytes")
	nul_bytes();
	TEST("lines longer than the buffer")
	long_lines();
	TEST("more labels than there is room for")
	many_labels();
	TEST("a page of 10 MB is cut off and does not count")
	huge_page();
	TEST("absent is not 0")
	absent();
	TEST("ranks, choices of names, labels")
	joins();
	return check_done();
}

// SPDX-License-Identifier: BSD-2-Clause
/* Who serves which model, and the 404 where nobody does. */
#include <errno.h>
#include <stdlib.h>
#include <yyjson.h>

#include "check.h"
#include "engines/models.h"

#define LIST(names) "{\"object\":\"list\",\"data\":[" names "]}"
#define ID(name) "{\"id\":\"" name "\",\"object\":\"model\"}"

/* as vLLM has it: the base model and an adapter */
static const char vllm[] =
	"{\"object\":\"list\",\"data\":[{\"id\":\"meta-llama/Llama-3.1-8B-Instruct\",\"object\":"
	"\"model\",\"created\":1754000000,\"owned_by\":\"vllm\",\"root\":"
	"\"meta-llama/Llama-3.1-8B-Instruct\",\"parent\":null,\"max_model_len\":131072},{\"id\":"
	"\"sql-adapter\",\"object\":\"model\",\"created\":1754000000,\"owned_by\":\"vllm\","
	"\"root\":\"/adapters/sql\",\"parent\":\"meta-llama/Llama-3.1-8B-Instruct\","
	"\"max_model_len\":null}]}";

static struct models *m;
static struct model_set pool;

static int told(uint32_t id, const char *json)
{
	bool changed = false;
	int err = models_told(m, id, json, strlen(json), &changed);

	return err ? err : changed;
}

/* The ids below 64 that serve it, as bits. */
static uint64_t serving(const char *name)
{
	struct model_set s = models_serving(m, &pool, name, strlen(name));

	CHECK(!s.words[1] && !s.words[2] && !s.words[3]);
	CHECK_EQ(model_set_empty(&s), !s.words[0]);
	return s.words[0];
}

static void begin(unsigned int n)
{
	models_free(m);
	m = models_new();
	memset(&pool, 0, sizeof(pool));
	for (unsigned int i = 0; i < n; i++)
		model_set_add(&pool, i);
}

static void table(void)
{
	begin(3);
	/* nobody has said anything: all may serve it */
	CHECK_EQ(serving("a"), 7);
	CHECK_EQ(told(0, vllm), 1);
	CHECK_EQ(told(0, vllm), 0);
	CHECK_STR(models_name(m, 0, 1), "sql-adapter");
	CHECK(!models_name(m, 0, 2) && !models_name(m, 1, 0) && !models_name(m, 999, 0));
	CHECK_EQ(serving("sql-adapter"), 7);
	CHECK_EQ(serving("a"), 6);
	CHECK_EQ(told(1, LIST(ID("a") "," ID("sql-adapter"))), 1);
	CHECK_EQ(told(2, LIST(ID("b"))), 1);
	CHECK_EQ(serving("sql-adapter"), 3);
	CHECK_EQ(serving("a"), 2);
	CHECK_EQ(serving("b"), 4);
	CHECK_EQ(serving("c"), 0);
	CHECK_EQ(serving(""), 0);
	/* an adapter is unloaded, another comes */
	CHECK_EQ(told(1, LIST(ID("a") "," ID("c"))), 1);
	CHECK_EQ(serving("sql-adapter"), 1);
	CHECK_EQ(serving("c"), 2);
	/* another pool's engines do not count */
	pool.words[0] = 5;
	CHECK_EQ(serving("a"), 0);
	pool.words[0] = 7;
	/* the id goes to another engine */
	models_forget(m, 1);
	CHECK(!models_known(m, 1));
	CHECK_EQ(serving("a"), 2);
	CHECK_EQ(serving("c"), 2);
	CHECK_EQ(serving("b"), 6);
	/* nothing is served: that is known too */
	CHECK_EQ(told(1, LIST("")), 1);
	CHECK_EQ(serving("b"), 4);
}

static void bad_lists(void)
{
	static const char *const bad[] = {
		"", "x", "[]", "{}", "{\"data\":{}}", "{\"data\":null}", "{\"data\":[}", "nul\xff",
	};
	static char huge[MODELS_LIST_MAX + 2];
	char *p = huge;

	begin(1);
	told(0, LIST(ID("a")));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK_EQ(told(0, bad[i]), -EBADMSG);
	memset(huge, ' ', sizeof(huge) - 1);
	CHECK_EQ(told(0, huge), -EBADMSG);
	CHECK_EQ(told(MODELS_ENGINES, LIST("")), -EINVAL);
	CHECK_EQ(serving("a"), 1);
	/* entries that are none are passed over, the same name twice is one */
	CHECK_EQ(told(0, LIST("1,{},{\"id\":3},{\"id\":\"\"},{\"id\":\"x\\u0000y\"}," ID(
				 "b") "," ID("b"))),
		 1);
	CHECK_EQ(serving("b"), 1);
	CHECK_EQ(serving("x"), 0);
	CHECK_EQ(told(0, LIST(ID("c"))), 1);
	CHECK_EQ(serving("b"), 0);
	/* more than there is room for */
	p += sprintf(p, "{\"data\":[{\"id\":\"%0*d\"}", MODELS_NAME_MAX + 1, 0);
	for (int i = 0; i < MODELS_PER_ENGINE + 5; i++)
		p += sprintf(p, ",{\"id\":\"m%d\"}", i);
	strcpy(p, "]}");
	CHECK_EQ(told(0, huge), 1);
	CHECK_EQ(serving("m1023"), 1);
	CHECK_EQ(serving("m1024"), 0);
	snprintf(huge, sizeof(huge), "%0*d", MODELS_NAME_MAX + 1, 0);
	CHECK_EQ(serving(huge), 0);
}

static void many(void)
{
	struct model_set s;
	char json[128], name[16];
	bool changed;

	begin(0);
	for (uint32_t id = 0; id < MODELS_ENGINES; id++) {
		model_set_add(&pool, id);
		snprintf(json, sizeof(json), LIST(ID("m%u") "," ID("all")), id);
		CHECK_EQ(models_told(m, id, json, strlen(json), &changed), 0);
	}
	for (uint32_t id = 0; id < MODELS_ENGINES; id++) {
		snprintf(name, sizeof(name), "m%u", id);
		s = models_serving(m, &pool, name, strlen(name));
		for (uint32_t other = 0; other < MODELS_ENGINES; other++)
			CHECK_EQ(model_set_has(&s, other), other == id);
	}
	s = models_serving(m, &pool, "all", 3);
	CHECK(!memcmp(&s, &pool, sizeof(s)));
}

static enum models_alike alike_of(uint64_t taking)
{
	return models_alike(m, &pool, &(struct model_set){{taking}});
}

static void alike(void)
{
	begin(3);
	CHECK_EQ(alike_of(0), MODELS_ALIKE);
	CHECK_EQ(alike_of(7), MODELS_OPEN); /* nobody has said anything */
	CHECK_EQ(told(0, LIST(ID("a") "," ID("b"))), 1);
	CHECK_EQ(alike_of(7), MODELS_OPEN);
	CHECK_EQ(told(2, LIST(ID("b") "," ID("a"))), 1);
	CHECK_EQ(alike_of(7), MODELS_OPEN);
	CHECK_EQ(alike_of(5), MODELS_ALIKE);
	CHECK_EQ(told(1, LIST(ID("a") "," ID("c"))), 1);
	CHECK_EQ(alike_of(7), MODELS_DIFFER);
	CHECK_EQ(told(1, LIST(ID("a"))), 1);
	CHECK_EQ(alike_of(7), MODELS_DIFFER);
	model_set_remove(&pool, 1);
	CHECK_EQ(alike_of(7), MODELS_ALIKE);
	/* of another pool */
	model_set_add(&pool, 1);
	models_forget(m, 1);
	CHECK_EQ(alike_of(7), MODELS_OPEN);
	/* it has no list to tell: it may serve any */
	models_asked(m, 1);
	CHECK_EQ(alike_of(7), MODELS_ALIKE);
	CHECK_EQ(serving("x"), 2);
}

static void unsure(void)
{
	begin(3);
	told(0, LIST(ID("a")));
	told(1, LIST(ID("a")));
	told(2, LIST(ID("b")));
	/* away, and back: maybe another one */
	models_unsure(m, 1);
	CHECK_EQ(serving("a"), 1);
	CHECK_EQ(serving("b"), 4);
	CHECK_EQ(serving("c"), 2);
	models_unsure(m, 0);
	models_unsure(m, 2);
	CHECK_EQ(serving("a"), 3);
	CHECK_EQ(serving("b"), 4);
	CHECK_EQ(serving("c"), 7);
	told(2, LIST(ID("a")));
	CHECK_EQ(alike_of(7), MODELS_DIFFER);
	CHECK_EQ(alike_of(4), MODELS_ALIKE); /* what takes no requests does not matter */
	told(0, LIST(ID("a")));
	CHECK_EQ(told(1, LIST(ID("a"))), 0);
	CHECK_EQ(alike_of(7), MODELS_ALIKE);
	CHECK_EQ(serving("c"), 0);
	/* it does not say: as it was */
	models_unsure(m, 1);
	models_asked(m, 1);
	CHECK_EQ(alike_of(7), MODELS_ALIKE);
	CHECK_EQ(serving("a"), 7);
}

static void not_found(void)
{
	static const struct {
		const char *name;
		size_t len;
		const char *message;
	} cases[] = {
		{"gpt-9", 5, "The model `gpt-9` does not exist."},
		{"", 0, "The model `` does not exist."},
		{"a\"b\\c", 5, "The model `a\"b\\c` does not exist."},
		{"\xff\0\n\xc3\xa9", 5, "The model `?????` does not exist."},
	};
	char *long_name = calloc(1, 100000), *body;
	size_t len;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		yyjson_doc *doc;
		yyjson_val *error;

		body = models_not_found(cases[i].name, cases[i].len, &len);
		doc = yyjson_read(body, len, 0);
		error = yyjson_obj_get(yyjson_doc_get_root(doc), "error");
		CHECK_STR(yyjson_get_str(yyjson_obj_get(error, "message")), cases[i].message);
		CHECK_STR(yyjson_get_str(yyjson_obj_get(error, "type")), "invalid_request_error");
		CHECK_STR(yyjson_get_str(yyjson_obj_get(error, "param")), "model");
		CHECK_STR(yyjson_get_str(yyjson_obj_get(error, "code")), "model_not_found");
		yyjson_doc_free(doc);
		free(body);
	}
	memset(long_name, 'x', 100000);
	body = models_not_found(long_name, 100000, &len);
	CHECK(len < 1000);
	free(body);
	free(long_name);
}

int main(void)
{
	TEST("who serves what")
	table();
	TEST("lists that are none")
	bad_lists();
	TEST("256 engines")
	many();
	TEST("all of a pool serve the same, or not")
	alike();
	TEST("who is back may be another one, until it has been asked")
	unsure();
	TEST("404 in OpenAI's form")
	not_found();
	models_free(m);
	return check_done();
}

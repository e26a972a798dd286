// SPDX-License-Identifier: BSD-2-Clause
/* From bodies to rungs: what has none, what else a body says, and the header's text. */
#include <errno.h>
#include <stdio.h>

#include "lib/facts.h"
#include "prompts.h"

static void bad_input(void)
{
	static const struct {
		const char *body;
		int err;
	} bad[] = {
		{"", -EINVAL},
		{" ", -EINVAL},
		{"x", -EINVAL},
		{"{", -EINVAL},
		{"[]", -EINVAL},
		{"'a'", -EINVAL},
		{"{}", -ENOMSG},
		{"{} {}", -EINVAL},
		{"{'messages':null}", -ENOMSG},
		{"{'messages':'a'}", -EINVAL},
		{"{'messages':{}}", -EINVAL},
		{"{'messages':['a']}", -EINVAL},
		{"{'messages':[{'role':1}]}", -EINVAL},
		{"{'messages':[{'role':'u','content':1}]}", -EINVAL},
		{"{'messages':[{'role':'u','content':'a'}]", -EINVAL},
		{"{'messages':[{'role':'u','content':'a'}],}", -EINVAL},
		{"{'messages':[{'role':'u','content':'a'},]}", -EINVAL},
		{"{'messages':[{'role':'u' 'content':'a'}]}", -EINVAL},
		{"{'messages':[],'tools':{}}", -EINVAL},
		{"{'messages':[],'model':1}", -EINVAL},
		{"{'messages':[],'model':'~~~~~'}", -EINVAL},
		{"{'messages':[],'cache_salt':[]}", -EINVAL},
		{"{'messages':[{'role':'u','content':'\n'}]}", -EINVAL},
		{"{'messages':[{'role':'u','content':'\\x'}]}", -EINVAL},
		{"{'messages':[{'role':'u','content':'\\u12'}]}", -EINVAL},
		{"{'messages':[{'role':'u','content':'\\u12g4'}]}", -EINVAL},
		{"{'messages':[{'role':'u','content':'\xff'}]}", -EINVAL},
		{"{'messages':[{'role':'u','content':'\xf5'}]}", -EINVAL},
		{"{'messages':[{'role':'u','content':'\xf5~'}]}", -EINVAL},
		{"{'messages':[{'role':'u','content':'a\\", -EINVAL},
		{"{'prompt':[]}", -ENOMSG},
		{"{'prompt':[[]]}", -ENOMSG},
		{"{'prompt':[['a']]}", -EINVAL},
		{"{'prompt':{}}", -EINVAL},
		{"{'prompt':true}", -EINVAL},
		{"{'prompt':[1,-2]}", -EINVAL},
		{"{'prompt':[1,2.5]}", -EINVAL},
		{"{'prompt':[1,1e3]}", -EINVAL},
		{"{'prompt':[1,'a']}", -EINVAL},
		{"{'prompt':[1,4294967296]}", -EINVAL},
		{"{'prompt':[1,99999999999999999999999999]}", -EINVAL},
		{"{'prompt':[01]}", -EINVAL},
		{"{'prompt':[1.]}", -EINVAL},
		{"{'prompt':nul}", -EINVAL},
		{"{'prompt':'a','x':tru}", -EINVAL},
	};

	TEST("what is not a prompt is refused with a reason")
	{
		for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
			struct kvsteer_prompt prompt;
			int err = hash(NULL, bad[i].body, &prompt);

			CHECK_EQ(err, bad[i].err);
			CHECK(prompt.reason && *prompt.reason);
			CHECK_EQ(prompt.n_rungs, 0);
			if (err != bad[i].err)
				printf("# %s\n", bad[i].body);
		}
	}
	TEST("deep nesting: refused from 129 levels on, hashed before")
	{
		static const char head[] =
			"{\"messages\":[{\"role\":\"u\",\"content\":\"a\"}],\"tools\":";
		char *text = malloc(3 << 20);
		struct kvsteer_prompt prompt;

		for (size_t depth = 1; depth < 1 << 20;
		     depth = depth < 200 ? depth + 1 : depth * 4) {
			size_t n = sizeof(head) - 1;

			memcpy(text, head, n);
			memset(text + n, '[', depth);
			memset(text + n + depth, ']', depth);
			text[n + 2 * depth] = '}';
			CHECK_EQ(kvsteer_body(NULL, text, n + 2 * depth + 1, NULL, &prompt),
				 depth > 127 ? -EINVAL : 0);
			/* and never closed */
			CHECK_EQ(kvsteer_body(NULL, text, n + depth, NULL, &prompt), -EINVAL);
		}
		free(text);
	}
	TEST("an object of too many members is refused, a large one is not")
	{
		struct kvsteer_prompt prompt;

		for (int n = 60000; n <= 70000; n += 10000) {
			char *text = malloc(n * 12 + 100), *p;

			p = stpcpy(text, "{\"prompt\":\"a\",\"messages\":[],\"tools\":[{");
			for (int i = 0; i < n; i++)
				p += sprintf(p, "%s\"%d\":0", i ? "," : "", i * 7919 % n);
			p = stpcpy(p, "}]}");
			CHECK_EQ(kvsteer_body(CHAT, text, p - text, NULL, &prompt),
				 n > 65536 ? -EINVAL : 0);
			free(text);
		}
	}
	TEST("token input: bounds of the block and of the strings")
	{
		static char name[5000];
		struct kvsteer_options opts = {.model = name};
		struct kvsteer_prompt prompt;
		uint32_t id = 7;

		CHECK_EQ(kvsteer_tokens(NULL, 0, 0, NULL, &prompt), 0);
		CHECK_EQ(prompt.total, 0);
		CHECK_EQ(prompt.n_rungs, 0);
		CHECK_EQ(prompt.block, KVSTEER_TOKEN_BLOCK);
		CHECK_EQ(kvsteer_tokens(&id, 1, 1, NULL, &prompt), 0);
		CHECK_EQ(prompt.n_rungs, 1);
		CHECK_EQ(kvsteer_tokens(&id, 1, KVSTEER_MAX_BLOCK + 1, NULL, &prompt), -EINVAL);
		CHECK_EQ(kvsteer_tokens(&id, SIZE_MAX / 8, 1, NULL, &prompt), -E2BIG);
		memset(name, 'm', 4096);
		CHECK_EQ(kvsteer_tokens(&id, 1, 1, &opts, &prompt), 0);
		name[4096] = 'm';
		CHECK_EQ(kvsteer_tokens(&id, 1, 1, &opts, &prompt), -EINVAL);
		CHECK(prompt.reason != NULL);
	}
}

static void header(void)
{
	TEST("header: text of the rungs, within 800 bytes, deepest kept")
	{
		char value[KVSTEER_HEADER_SIZE], again[KVSTEER_HEADER_SIZE], large[2000];
		struct kvsteer_prompt prompt = {.total = 300, .n_rungs = 2};
		struct kv_query query = {};
		int len;

		prompt.rungs[0] = (struct kvsteer_rung){.depth = 64, .hash = 0xab};
		prompt.rungs[1] = (struct kvsteer_rung){.depth = 256, .hash = 0xfedcba9876543210};
		len = kvsteer_header(&prompt, value, sizeof(value));
		CHECK_STR(value, "1;300,64:00000000000000ab,256:fedcba9876543210");
		CHECK_EQ(len, strlen(value));
		CHECK_EQ(kvsteer_header(&prompt, again, len + 1), len);
		CHECK_EQ(kvsteer_header(&prompt, again, len), 26);
		CHECK_STR(again, "1;300,256:fedcba9876543210");
		CHECK_EQ(kvsteer_header(&prompt, again, 26), -ENOSPC);
		CHECK_STR(again, "");
		CHECK_EQ(kvsteer_header(&prompt, again, 0), -ENOSPC);
		kv_query_set_prompt(&query, &prompt);
		CHECK_EQ(query.total, 300);
		CHECK_EQ(query.n_rungs, 2);
		CHECK_EQ(query.rungs[1].hash, 0xfedcba9876543210);

		prompt.total = 4294967295u;
		prompt.n_rungs = 32;
		for (int i = 0; i < 32; i++)
			prompt.rungs[i] =
				(struct kvsteer_rung){.depth = 4294967264u + i, .hash = i};
		CHECK_EQ(kvsteer_header(&prompt, value, sizeof(value)), 12 + 28 * 28);
		CHECK(strstr(value, "1;4294967295,4294967268:0000000000000004,") == value);
		CHECK(strstr(value, ",4294967295:000000000000001f") != NULL);

		CHECK_EQ(kvsteer_header(&prompt, large, sizeof(large)), strlen(value));
		CHECK_STR(large, value);

		prompt.n_rungs = 0;
		CHECK_EQ(kvsteer_header(&prompt, value, sizeof(value)), 0);
		CHECK_STR(value, "");
	}
}

static void facts_of(const char *text, struct kv_facts *ret)
{
	struct kvsteer_prompt prompt;
	struct kv_facts alone;

	CHECK_EQ(kv_body("/v1/completions", text, strlen(text), NULL, &prompt, ret), 0);
	kv_body_facts(text, strlen(text), &alone);
	CHECK(!memcmp(ret, &alone, sizeof(alone)));
}

static void facts(void)
{
	struct kv_facts f;
	char text[1000];

	TEST("what else a body says: model, salt, adapter")
	{
		facts_of("{\"prompt\":\"x\",\"model\":\"a\\u00e9\\\"b\"}", &f);
		CHECK_EQ(f.model_len, 5);
		CHECK(!memcmp(f.model, "a\xc3\xa9\"b", 5));
		CHECK(!f.salted && !f.adapter);
		facts_of("{\"prompt\":\"x\",\"model\":null,\"cache_salt\":\"s\"}", &f);
		CHECK(!f.model_len && f.salted && !f.adapter);
		facts_of("{\"prompt\":\"x\",\"extra_key\":\"s\",\"lora_path\":\"l\"}", &f);
		CHECK(f.salted && f.adapter);
		snprintf(text, sizeof(text), "{\"prompt\":\"x\",\"model\":\"%0255d\"}", 0);
		facts_of(text, &f);
		CHECK_EQ(f.model_len, 255);
		snprintf(text, sizeof(text), "{\"prompt\":\"x\",\"model\":\"%0700d\"}", 0);
		facts_of(text, &f);
		CHECK_EQ(f.model_len, KV_FACTS_MODEL + 1);
		kv_body_facts("[1]", 3, &f);
		CHECK(!f.model_len);
		kv_body_facts("{", 1, &f);
		CHECK(!f.model_len);
	}
}

int main(void)
{
	bad_input();
	header();
	facts();
	return check_done();
}

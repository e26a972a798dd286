// SPDX-License-Identifier: BSD-2-Clause
/* Texts tied to token blocks: how many tokens a text covers, and the table of ties. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "events/align.h"
#include "events/tie.h"
#include "kvsteer.h"
#include "lib/body.h"

#define N(a) (sizeof(a) / sizeof(*(a)))
#define TEXT "\xf8"
#define ROLE "\xf6"

static struct kv_align a;

static void align(const char *canonical, const char *const *tokens, uint32_t n)
{
	struct kv_align_token t[64];

	kv_align_exit(&a);
	for (uint32_t i = 0; i < n; i++)
		t[i] = (struct kv_align_token){tokens[i], strlen(tokens[i])};
	CHECK_EQ(kv_align_init(&a, canonical, strlen(canonical), t, n), 0);
}

/* Of the canonical text up to the end of this. */
static uint32_t covers(const char *canonical, const char *upto)
{
	return kv_align_tokens(&a, strstr(canonical, upto) + strlen(upto) - canonical);
}

static void alignments(void)
{
	TEST("byte-level vocabulary: whole tokens within the text, the template's own before it")
	{
		static const char text[] =
			ROLE "system" TEXT "Be kind." ROLE "user" TEXT "Caf\xc3\xa9 noir?";
		static const char *const tokens[] = {
			"<s>",		"system",   "\xc4\x8a", "Be",
			"\xc4\xa0kind", ".",	    "</s>",	"<s>",
			"user",		"\xc4\x8a", "Caf",	"\xc3\x83\xc2\xa9",
			"\xc4\xa0no",	"ir",	    "?",	"</s>"};

		align(text, tokens, N(tokens));
		CHECK_EQ(kv_align_tokens(&a, 0), 0);
		CHECK_EQ(covers(text, "system"), 0);
		CHECK_EQ(covers(text, "Be"), 4);
		CHECK_EQ(covers(text, "Be k"), 4); /* not whole */
		CHECK_EQ(covers(text, "Be kind"), 5);
		CHECK_EQ(covers(text, "kind."), 6);
		CHECK_EQ(covers(text, "user"), 6); /* what is between belongs to the template */
		CHECK_EQ(covers(text, "Caf"), 11);
		CHECK_EQ(covers(text, "Caf\xc3"), 11);
		CHECK_EQ(covers(text, "Caf\xc3\xa9"), 12);
		CHECK_EQ(covers(text, "noir?"), 15);
		CHECK_EQ(kv_align_tokens(&a, sizeof(text)), KV_ALIGN_UNKNOWN);
	}

	TEST("SentencePiece vocabulary, bytes without a word, a template that trims")
	{
		static const char text[] = ROLE "user" TEXT "  Hi \xf0\x9f\x98\x80 you\n";
		static const char *const tokens[] = {"<s>",    "\xe2\x96\x81[",	  "INST",
						     "]",      "\xe2\x96\x81Hi",  "\xe2\x96\x81",
						     "<0xF0>", "<0x9F>",	  "<0x98>",
						     "<0x80>", "\xe2\x96\x81you", "\xe2\x96\x81["};

		align(text, tokens, N(tokens));
		CHECK_EQ(covers(text, "Hi"), 5);
		CHECK_EQ(covers(text, "Hi "), 6);
		CHECK_EQ(covers(text, "\xf0\x9f\x98\x80"), 10);
		CHECK_EQ(covers(text, "you\n"), 11);
	}

	TEST("a text that the template has changed: nothing is said from there on")
	{
		static const char text[] = TEXT "first" TEXT "gone" TEXT "last";
		static const char *const tokens[] = {"first", "last"};

		align(text, tokens, N(tokens));
		CHECK_EQ(covers(text, "first"), 1);
		CHECK_EQ(covers(text, "gone"), KV_ALIGN_UNKNOWN);
		CHECK_EQ(covers(text, "last"), KV_ALIGN_UNKNOWN);
		align(text, NULL, 0);
		CHECK_EQ(covers(text, "first"), KV_ALIGN_UNKNOWN);
	}

	TEST("texts that are one in the other are found in their order")
	{
		static const char text[] = TEXT "a" TEXT "aa" TEXT "" TEXT "a";
		static const char *const tokens[] = {"x", "a", "y", "a", "a", "z", "a"};

		align(text, tokens, N(tokens));
		CHECK_EQ(kv_align_tokens(&a, 2), 2);
		CHECK_EQ(kv_align_tokens(&a, 4), 4);
		CHECK_EQ(kv_align_tokens(&a, 5), 5);
		CHECK_EQ(kv_align_tokens(&a, sizeof(text) - 1), 7);
	}

	TEST("a text whose beginning stands before it, once and many times")
	{
#define LONG "0123456789abcdef0123456789abcdef"
		static const char text[] = TEXT LONG "end";
		const char *tokens[40];

		for (uint32_t n = 1; n < N(tokens); n++) {
			for (uint32_t i = 0; i < n; i++)
				tokens[i] = LONG;
			tokens[n] = "end";
			align(text, tokens, n + 1);
			CHECK_EQ(covers(text, "end"), n + 1);
			CHECK_EQ(covers(text, "abcdef"), n - 1);
			tokens[n] = "en";
			align(text, tokens, n + 1);
			CHECK_EQ(covers(text, "end"), KV_ALIGN_UNKNOWN);
		}
	}

	TEST("behind the last text that was found, not far")
	{
		static const char *const tokens[] = {"x", "a", "y"};
		char text[2 * KV_ALIGN_GAP] = TEXT "a" ROLE;

		memset(text + 3, 'r', sizeof(text) - 4);
		align(text, tokens, N(tokens));
		CHECK_EQ(kv_align_tokens(&a, 2 + KV_ALIGN_GAP), 2);
		CHECK_EQ(kv_align_tokens(&a, 3 + KV_ALIGN_GAP), KV_ALIGN_UNKNOWN);
	}
}

static void bodies(void)
{
	static const char body[] =
		"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"h\\u00e9\"}]}";
	struct kvsteer_options options = {.model = "m"};
	struct kvsteer_prompt prompt, tokens;
	struct kv_tap tap = {};
	uint32_t ids[16] = {1};

	TEST("the canonical text is what is hashed; the token domain's seed follows from the "
	     "text's")
	{
		CHECK_EQ(kv_body_text(NULL, body, sizeof(body) - 1, NULL, &prompt, &tap), 0);
		CHECK(tap.len == 9 && !memcmp(tap.data, ROLE "user" TEXT "h\xc3\xa9", 9));
		CHECK_EQ(kvsteer_tokens(ids, 16, 16, &options, &tokens), 0);
		CHECK_EQ(kv_token_seed(prompt.seed), tokens.seed);
	}
	free(tap.data);
}

static unsigned int texts(const struct kv_ties *t, uint64_t token)
{
	uint32_t at = 0;
	uint64_t text;
	unsigned int n = 0;

	while (kv_ties_next(t, token, &at, &text))
		n++;
	return n;
}

static void table(void)
{
	struct kv_ties *t = kv_ties_new(32 * 100);
	struct kv_tie old = {};

	TEST("ties: several texts of one block, each once; the oldest make room")
	{
		CHECK(kv_ties_add(t, 1, 10, &old));
		CHECK(kv_ties_add(t, 1, 11, &old));
		CHECK_EQ(kv_ties_add(t, 1, 10, &old), KV_TIED_NOT);
		CHECK(kv_ties_add(t, 2, 10, &old));
		CHECK_EQ(texts(t, 1), 2);
		CHECK_EQ(texts(t, 2), 1);
		CHECK_EQ(texts(t, 3), 0);
		for (uint64_t i = 0; i < 97; i++)
			CHECK(kv_ties_add(t, 100 + i % 5, i, &old));
		CHECK_EQ(texts(t, 1), 2);
		CHECK_EQ(kv_ties_count(t), 100);
		CHECK_EQ(old.token + old.text, 0);
		for (uint64_t i = 0; i < 1000; i++) {
			CHECK_EQ(kv_ties_add(t, 1000 + i, i, &old), KV_TIED_REPLACES);
			CHECK_EQ(old.token, i == 0 || i == 1 ? 1
					    : i == 2	     ? 2
					    : i < 100	     ? 100 + (i - 3) % 5
							     : 900 + i);
			CHECK_EQ(old.text, i < 3 ? 10 + i % 2 : i < 100 ? i - 3 : i - 100);
		}
		CHECK_EQ(kv_ties_count(t), 100);
		CHECK_EQ(texts(t, 1), 0);
		CHECK_EQ(texts(t, 1899), 0);
		CHECK_EQ(texts(t, 1900), 1);
		CHECK_EQ(texts(t, 1999), 1);
	}

	TEST("ties: of one block no more than can be told in one go")
	{
		for (uint64_t i = 0; i < KV_TIES_EACH; i++)
			CHECK(kv_ties_add(t, 1, i, &old));
		CHECK_EQ(kv_ties_add(t, 1, KV_TIES_EACH, &old), KV_TIED_NOT);
		CHECK_EQ(texts(t, 1), KV_TIES_EACH);
		CHECK(kv_ties_add(t, 2, KV_TIES_EACH, &old));
	}
	kv_ties_free(t);
}

int main(void)
{
	alignments();
	kv_align_exit(&a);
	bodies();
	table();
	return check_done();
}

// SPDX-License-Identifier: BSD-2-Clause
/* From bodies to rungs: what is the same prompt and what is not. Run in the source tree's root:
 * reads tests/vectors/. */
#include <errno.h>
#include <stdio.h>
#include <yyjson.h>

#include "prompts.h"

static void same_prompts(void)
{
	TEST("order of keys and white space do not matter")
	{
		CHECK(same(CHAT, ONE, "{'messages':[{'content':'~','role':'user'}],'model':'m'}"));
		CHECK(same(CHAT, ONE,
			   "\n{ 'messages' :\t[ {\r\n'role' : 'user' , 'content' : '~' } ] , "
			   "'model' : "
			   "'m' } \n"));
		CHECK(same(CHAT, ONE,
			   "{'temperature':1e-3,'model':'m','stream':true,'messages':["
			   "{'role':'user','content':'~'}],'stop':[null,{}]}"));
	}
	TEST("escapes do not matter")
	{
		CHECK(same(CHAT, "{'messages':[{'role':'u','content':'\xc3\xa9\xe2\x82\xac~'}]}",
			   "{'messages':[{'role':'\\u0075','content':'\\u00e9\\u20AC~'}]}"));
		CHECK(same(CHAT, "{'messages':[{'role':'u','content':'\xf0\x9f\x98\x80/~'}]}",
			   "{'mess\\u0061ges':[{'role':'u','content':'\\ud83d\\ude00\\/~'}]}"));
		CHECK(same(CHAT,
			   "{'messages':[{'role':'u','content':'\\b\\f\\n\\r\\t\\\\\\u0022~'}]}",
			   "{'messages':[{'role':'u','content':'\\u0008\\u000C\\u000a\\u000d\\u0009"
			   "\\u005c\\'~'}]}"));
		CHECK(apart(CHAT, "{'messages':[{'role':'u','content':'\\n~'}]}",
			    "{'messages':[{'role':'u','content':'\\\\n~'}]}"));
	}
	TEST("a string is one text part; what is empty is not there")
	{
		CHECK(same(CHAT, ONE,
			   "{'model':'m','messages':[{'role':'user','content':[{'type':'text',"
			   "'text':'~'}]}]}"));
		CHECK(same(CHAT, ONE,
			   "{'model':'m','tools':[],'messages':[{'role':'user','name':null,"
			   "'tool_calls':null,'content':[{'text':'~'}]}]}"));
		CHECK(same(CHAT, ONE,
			   "{'model':'m','tools':null,'messages':[{'role':'user','content':["
			   "{'text':'~','type':'text','cache_control':{'type':'ephemeral'}}]}]}"));
		CHECK(apart(CHAT,
			    "{'messages':[{'role':'u','content':[{'text':'a'},{'text':'b~'}]}]}",
			    "{'messages':[{'role':'u','content':'ab~'}]}"));
	}
	TEST("tools: order of keys and white space do not matter, order of tools does")
	{
		const char *tools =
			"{'tools':[{'type':'function','function':{'name':'f','parameters':{'a':[1,"
			"2],"
			"'b':{'c':'\\u00e9','d':-1.5e3}}}},{'name':'g'}],'messages':[{'role':'u',"
			"'content':'~~'}]}";

		CHECK(same(
			CHAT, tools,
			"{'messages':[{'role':'u','content':'~~'}],'tools':[ "
			"{'function':{'parameters'"
			": {'b':{'d':-1.5e3,'\\u0063':'\xc3\xa9'},'a':[1 ,2]},'name':'f'},'type':"
			"'function','cache_control':{'type':'ephemeral'}}, {'name':'g'}]}"));
		CHECK(apart(
			CHAT, tools,
			"{'tools':[{'name':'g'},{'type':'function','function':{'name':'f',"
			"'parameters':{'a':[1,2],'b':{'c':'\\u00e9','d':-1.5e3}}}}],'messages':["
			"{'role':'u','content':'~~'}]}"));
		CHECK(apart(
			CHAT, tools,
			"{'tools':[{'type':'function','function':{'name':'f','parameters':{'a':[2,"
			"1],"
			"'b':{'c':'\\u00e9','d':-1.5e3}}}},{'name':'g'}],'messages':[{'role':'u',"
			"'content':'~~'}]}"));
	}
	TEST("long strings in tools are text, not digests")
	{
		struct kvsteer_prompt prompt;

		CHECK_EQ(hash(CHAT, "{'tools':[{'description':'~~~~'}],'messages':[]}", &prompt),
			 0);
		CHECK(prompt.total > 1000);
	}
	TEST("keys that begin alike, are many, or are longer than any buffer, are sorted")
	{
		CHECK(same(CHAT,
			   "{'tools':[{'a':1,'ab':2,'abc':3,'~':4,'~x':5,'':6}],'messages':[{'role'"
			   ":'u',"
			   "'content':'~'}]}",
			   "{'tools':[{'~x':5,'':6,'abc':3,'a\\u0062':2,'~':4,'a':1}],'messages':[{"
			   "'content':'~','role':'u'}]}"));
	}
}

static void different_prompts(void)
{
	TEST("role, name, tools, calls and model make another prompt")
	{
		CHECK(apart(CHAT, ONE,
			    "{'model':'m','messages':[{'role':'system','content':'~'}]}"));
		CHECK(apart(CHAT, ONE, "{'model':'n','messages':[{'role':'user','content':'~'}]}"));
		CHECK(apart(CHAT, ONE,
			    "{'model':'m','messages':[{'role':'user','name':'n','content':"
			    "'~'}]}"));
		CHECK(apart(CHAT, ONE,
			    "{'model':'m','tools':[{'name':'f'}],'messages':[{'role':'user',"
			    "'content':'~'}]}"));
		CHECK(apart(CHAT,
			    "{'messages':[{'role':'a','tool_calls':[{'id':'1'}]},{'role':'u',"
			    "'content':'~'}]}",
			    "{'messages':[{'role':'a','tool_calls':[{'id':'2'}]},{'role':'u',"
			    "'content':'~'}]}"));
		CHECK(apart(
			CHAT,
			"{'messages':[{'role':'tool','tool_call_id':'1','content':'x'},{'role':'u',"
			"'content':'~'}]}",
			"{'messages':[{'role':'tool','tool_call_id':'2','content':'x'},{'role':'u',"
			"'content':'~'}]}"));
		CHECK(apart(CHAT,
			    "{'messages':[{'role':'u','content':'a'},{'role':'u','content':'~'}]}",
			    "{'messages':[{'role':'u','content':'a\xc2\xb6u~'}]}"));
	}
	TEST("images by URL, or by digest where they are in the body")
	{
#define IMAGE(url)                                                                                 \
	"{'messages':[{'role':'u','content':[{'type':'image_url','image_url':{'url':'" url         \
	"'}},{'type':'text','text':'~'}]}]}"
		struct kvsteer_prompt small, large;

		CHECK(apart(CHAT, IMAGE("http://a/1.png"), IMAGE("http://a/2.png")));
		CHECK(apart(CHAT, IMAGE("data:,~~x"), IMAGE("data:,~~y")));
		CHECK(same(CHAT, IMAGE("data:,~~x/"), IMAGE("data:,~~x\\/")));
		CHECK_EQ(hash(CHAT, IMAGE("http://a/1.png"), &small), 0);
		CHECK_EQ(hash(CHAT, IMAGE("data:,~~~~~~~~"), &large), 0);
		CHECK(large.total < small.total + 10);
	}
	TEST("what is long is told by the decoded string")
	{
#define PART "{'messages':[{'role':'u','content':[{'type':'x','x':'%s'}]}]}"
		/* 600 bytes, and the same in 3,600 */
		char string[3601], plain[4000], escaped[4000];

		memset(string, 'a', 600);
		string[600] = '\0';
		snprintf(plain, sizeof(plain), PART, string);
		for (int i = 0; i < 600; i++)
			memcpy(string + i * 6, "\\u0061", 7);
		snprintf(escaped, sizeof(escaped), PART, string);
		CHECK(same(CHAT, plain, escaped));
	}
	TEST("escapes anywhere: at, before and across the edges of vectors")
	{
		static const char *const escapes[] = {"\\n", "\\'", "\\\\", "\\u00e9",
						      "\\ud83d\\ude00"};
		static const char *const bytes[] = {"\\u000a", "\\u0022", "\\u005c", "\xc3\xa9",
						    "\xf0\x9f\x98\x80"};

		for (int at = 0; at < 150; at++)
			for (int e = 0; e < 5; e++) {
				char a[3000], b[3000];

				snprintf(a, sizeof(a), "{'prompt':'%.*s%s%s%s%.400s'}", at,
					 filler(), escapes[e], escapes[(e + 1) % 5], escapes[e],
					 filler());
				snprintf(b, sizeof(b), "{'prompt':'%.*s%s%s%s%.400s'}", at,
					 filler(), bytes[e], bytes[(e + 1) % 5], bytes[e],
					 filler());
				CHECK(same("/v1/completions", a, b));
			}
	}
	TEST("model, LoRA, salt, tenant: from the body, or from the caller")
	{
#define SALTED                                                                                     \
	"{'model':'m','cache_salt':'s','user':'u','messages':[{'role':'user','content':'~'}]}"
		struct kvsteer_options opts[] = {
			{.model = "m", .salt = "s", .tenant = ""},
			{.salt = ""},
			{.model = "other"},
			{.lora = "adapter"},
			{.tenant = "t"},
			{.flags = KVSTEER_USER_IS_TENANT},
		};
		struct kvsteer_prompt base, other, plain;

		CHECK_EQ(hash(CHAT, SALTED, &base), 0);
		CHECK_EQ(hash_with(CHAT, SALTED, &opts[0], &other), 0);
		CHECK(equal(&base, &other));
		CHECK_EQ(hash(CHAT, ONE, &plain), 0);
		CHECK_EQ(hash_with(CHAT, SALTED, &opts[1], &other), 0);
		CHECK(equal(&plain, &other));
		CHECK_EQ(common_depth(&base, &plain), 0);
		for (size_t i = 2; i < sizeof(opts) / sizeof(*opts); i++) {
			CHECK_EQ(hash_with(CHAT, SALTED, &opts[i], &other), 0);
			CHECK_EQ(common_depth(&base, &other), 0);
			CHECK_EQ(other.total, base.total);
		}
		CHECK_EQ(hash_with(CHAT,
				   "{'model':'m','cache_salt':'s','metadata':{'user_id':'u'},"
				   "'messages':[{'role':'user','content':'~'}]}",
				   &opts[5], &plain),
			 0);
		CHECK(equal(&plain, &other));
	}
}

static void endpoints(void)
{
	TEST("Anthropic's system, parts and tool results")
	{
		const char *path = "/v1/messages";

		CHECK(same(path, "{'system':'~','messages':[{'role':'user','content':'~'}]}",
			   "{'messages':[{'role':'user','content':'~'}],'system':[{'type':'text','"
			   "text':"
			   "'~','cache_control':{'type':'ephemeral'}}]}"));
		CHECK(same(path, "{'system':'~','messages':[{'role':'user','content':'~'}]}",
			   "{'messages':[{'role':'system','content':'~'},{'role':'user','content':'"
			   "~'}]}"));
		CHECK(same(path,
			   "{'messages':[{'role':'assistant','content':[{'type':'tool_use','id':'1'"
			   ",'name':"
			   "'f','input':{'a':1,'b':[2]}}]},{'role':'user','content':[{'type':"
			   "'tool_result','tool_use_id':'1','content':'~'}]}]}",
			   "{'messages':[{'role':'assistant','content':[{'input':{'b':[ 2 "
			   "],'a':1},'name':"
			   "'f','id':'1','type':'tool_use','cache_control':{}}]},{'role':'user','"
			   "content':["
			   "{'content':[{'text':'~','type':'text'}],'tool_use_id':'1','type':"
			   "'tool_result'}]}]}"));
#define RESULT(rest)                                                                               \
	"{'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':" rest "}]}]}"
		CHECK(apart(path, RESULT("'1','content':'~'"), RESULT("'2','content':'~'")));
		CHECK(apart(path, RESULT("'1','content':'~'"),
			    RESULT("'1','is_error':true,'content':'~'")));
	}
	TEST("responses: a string is one user's message, instructions are a system message")
	{
		const char *path = "/v1/responses";

		CHECK(same(
			path, "{'instructions':'~','input':'~'}",
			"{'input':[{'role':'system','content':'~'},{'type':'message','role':'user',"
			"'content':[{'type':'input_text','text':'~'}]}]}"));
		CHECK(apart(
			path,
			"{'input':[{'type':'function_call_output','call_id':'1','output':'~'}]}",
			"{'input':[{'type':'function_call_output','call_id':'2','output':'~'}]}"));
		CHECK(apart(path, "{'previous_response_id':'a','input':'~'}", "{'input':'~'}"));
	}
	TEST("completions and generate: strings, the first of several, tokens")
	{
		static const uint32_t ids[] = {1, 2, 3, 4294967295u, 5, 6, 7, 8, 9, 10};
		struct kvsteer_options opts = {.block = 4};
		struct kvsteer_prompt tokens, other;
		const char *path = "/v1/completions";

		CHECK(same(path, "{'prompt':'~'}", "{'prompt':['~','other']}"));
		CHECK(apart(path, "{'prompt':'a~'}", "{'prompt':'b~'}"));
		CHECK(apart(path, "{'prompt':'~'}", "{'prompt':'~','model':'m'}"));
		CHECK_EQ(kvsteer_tokens(ids, 10, 4, NULL, &tokens), 0);
		CHECK_EQ(tokens.total, 10);
		CHECK_EQ(tokens.n_rungs, 2);
		CHECK_EQ(tokens.rungs[1].depth, 8);
		CHECK_EQ(tokens.domain, KVSTEER_TOKENS);
		CHECK_EQ(hash_with(path, "{'prompt':[1,2,3,4294967295,5,6,7,8,9,10]}", &opts,
				   &other),
			 0);
		CHECK(equal(&tokens, &other));
		CHECK_EQ(hash_with(path, "{'prompt':[ [1 ,2,3,4294967295,5,6,7,8,9,10 ] ,[1]]}",
				   &opts, &other),
			 0);
		CHECK(equal(&tokens, &other));
		CHECK_EQ(hash_with("/generate", "{'input_ids':[1,2,3,4294967295,5,6,7,8,9,10]}",
				   &opts, &other),
			 0);
		CHECK(equal(&tokens, &other));
		CHECK(same("/generate", "{'text':'~'}", "{'text':['~','x']}"));
		CHECK_EQ(hash_with("/generate", "{'input_ids':[1,2,3,4],'lora_path':'a'}", &opts,
				   &other),
			 0);
		CHECK(other.rungs[0].hash != tokens.rungs[0].hash);
	}
	TEST("paths: by their last segments; without one, by the body's fields")
	{
		struct kvsteer_prompt a, b;

		CHECK_EQ(hash("/openai" CHAT "?api-version=1", ONE, &a), 0);
		CHECK_EQ(hash(NULL, ONE, &b), 0);
		CHECK(equal(&a, &b));
		CHECK_EQ(hash("/v1/embeddings", ONE, &b), -EOPNOTSUPP);
		CHECK_EQ(hash("/v1/messages/count_tokens", ONE, &b), -EOPNOTSUPP);
		CHECK_EQ(hash("", ONE, &b), -EOPNOTSUPP);
		CHECK_EQ(hash("/v1/completions", ONE, &b), -ENOMSG);
		CHECK_EQ(hash("/v1/completions/", "{'prompt':'~'}", &b), 0);
		CHECK_EQ(hash(NULL, "{'prompt':'~'}", &b), 0);
		CHECK_EQ(hash(NULL, "{'input':'~'}", &b), 0);
		CHECK_EQ(hash(NULL, "{'text':'~'}", &b), 0);
		CHECK_EQ(hash(NULL, "{'input_ids':[1]}", &b), 0);
		CHECK_EQ(b.total, 1);
	}
}

static void prefixes(void)
{
	TEST("a chat's next turn knows the last full block of the turn before")
	{
		char *chat = strdup("{'model':'m','messages':[{'role':'system','content':'~~~'}");
		struct kvsteer_prompt before = {}, now;

		for (int turn = 0; turn < 40; turn++) {
			char *next, *whole;

			/* A user's message of some length; from the second turn on, after an
			 * answer. */
			CHECK(asprintf(&next, "%s%s,{'role':'user','content':'%0*d%s'}", chat,
				       turn ? ",{'role':'assistant','content':'~'}" : "",
				       1 + turn * 7, turn, turn % 3 ? "~" : "") > 0);
			free(chat);
			chat = next;
			CHECK(asprintf(&whole, "%s]}", chat) > 0);
			CHECK_EQ(hash(CHAT, whole, &now), 0);
			free(whole);
			if (turn)
				CHECK_EQ(common_depth(&before, &now),
					 before.rungs[before.n_rungs - 1].depth);
			CHECK(now.total - now.rungs[now.n_rungs - 1].depth <= 64);
			before = now;
		}
		free(chat);
	}
	TEST("two prompts share all full blocks before their first difference")
	{
		struct kvsteer_prompt x, y;

		CHECK_EQ(hash("/v1/completions", "{'prompt':'~~x~'}", &x), 0);
		CHECK_EQ(hash("/v1/completions", "{'prompt':'~~y~~~'}", &y), 0);
		/* A mark and 2,000 bytes are seven whole blocks; powers of two meet at four. */
		CHECK_EQ(common_depth(&x, &y), 4 * 64);
		CHECK_EQ(hash("/v1/completions", "{'prompt':'~~~'}", &y), 0);
		CHECK_EQ(hash("/v1/completions", "{'prompt':'~~'}", &x), 0);
		CHECK_EQ(x.rungs[x.n_rungs - 1].depth, 7 * 64);
		CHECK_EQ(x.total, (1 + 2000 + 3) / 4);
	}
}

static void vectors(void)
{
	TEST("vectors of a second implementation")
	{
		yyjson_doc *doc = yyjson_read_file("tests/vectors/prompt.json", 0, NULL, NULL);
		yyjson_val *vector;
		size_t i, max;

		CHECK_EQ(yyjson_arr_size(yyjson_doc_get_root(doc)), 3);
		yyjson_arr_foreach (yyjson_doc_get_root(doc), i, max, vector) {
			yyjson_val *chain = yyjson_obj_get(vector, "chain");
			struct kvsteer_prompt prompt;
			size_t len;
			char *text = yyjson_val_write(yyjson_obj_get(vector, "body"), 0, &len);

			CHECK_EQ(kvsteer_body(NULL, text, len, NULL, &prompt), 0);
			free(text);
			CHECK_EQ(prompt.total, yyjson_get_uint(yyjson_obj_get(vector, "total")));
			CHECK_EQ(prompt.block, yyjson_get_uint(yyjson_obj_get(vector, "block")));
			CHECK(prompt.n_rungs > 0);
			for (uint32_t r = 0; r < prompt.n_rungs; r++) {
				size_t at = prompt.rungs[r].depth / prompt.block - 1;
				const char *hex = yyjson_get_str(yyjson_arr_get(chain, at));

				CHECK_EQ(prompt.rungs[r].hash, strtoull(hex ? hex : "", NULL, 16));
			}
			CHECK_EQ(prompt.rungs[prompt.n_rungs - 1].depth / prompt.block,
				 yyjson_arr_size(chain));
		}
		yyjson_doc_free(doc);
	}
}

int main(void)
{
	vectors();
	same_prompts();
	different_prompts();
	endpoints();
	prefixes();
	return check_done();
}

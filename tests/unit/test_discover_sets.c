// SPDX-License-Identifier: BSD-2-Clause
/* Sets of addresses, DNS messages byte by byte, a file that is written anew. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "common/log.h"
#include "engines/address_set.h"
#include "engines/dns_answer.h"
#include "engines/file_watch.h"
#include "loop_server.h"

static struct kv_addr addr(unsigned int host, unsigned int port)
{
	char text[32];
	struct kv_addr a;

	snprintf(text, sizeof(text), "10.0.%u.%u:%u", host / 250, host % 250 + 1, port);
	kv_addr_parse(text, &a);
	return a;
}

static void sets(void)
{
	static struct address_set a, b, d;
	struct kv_addr x;

	for (unsigned int i = 0; i < 600; i++) {
		x = addr(i * 7 % 100, 80);
		address_set_add(&a, &x);
		x = addr(50 + i % 100, 80);
		address_set_add(&b, &x);
	}
	CHECK_EQ(a.n, 100);
	CHECK_EQ(b.n, 100);
	CHECK(!address_set_equal(&a, &b) && address_set_equal(&a, &a));
	address_set_minus(&a, &b, &d);
	CHECK_EQ(d.n, 50);
	for (unsigned int i = 0; i < 150; i++) {
		x = addr(i, 80);
		CHECK_EQ(address_set_has(&a, &x), i < 100);
		CHECK_EQ(address_set_has(&d, &x), i < 50);
		x = addr(i, 81);
		CHECK(!address_set_has(&a, &x));
	}
	for (unsigned int i = 0; i < 300; i++) {
		x = addr(i, 80);
		address_set_add(&a, &x);
	}
	CHECK_EQ(a.n, ADDRESS_SET_MOST);
	CHECK_EQ(a.passed_over, 300 - ADDRESS_SET_MOST);
}

/* One question, and answers: name by pointer to it. */
static size_t message(unsigned char *m, unsigned int type, unsigned int ttl, const void *data,
		      unsigned int len, unsigned int count)
{
	static const unsigned char head[] = {0, 1, 0x81, 0x80, 0, 1, 0, 0, 0, 0,
					     0, 0, 1,	 'a',  0, 0, 1, 0, 1};
	size_t n = sizeof(head);

	memcpy(m, head, n);
	m[7] = count;
	m[16] = type;
	while (count--) {
		unsigned char rr[] = {0xc0,	 12,	    0,	      type, 0,	      1,
				      ttl >> 24, ttl >> 16, ttl >> 8, ttl,  len >> 8, len};

		memcpy(m + n, rr, sizeof(rr));
		memcpy(m + n + sizeof(rr), data, len);
		n += sizeof(rr) + len;
	}
	return n;
}

static void messages(void)
{
	static struct dns_answer a;
	static const unsigned char v4[] = {10, 0, 0, 1};
	static const unsigned char srv[] = {0, 3, 0, 9, 0x1f, 0x40, 1, 'b', 0xc0, 12};
	static const unsigned char self[] = {0, 3, 0, 9, 0x1f, 0x40, 0xc0, 37};
	unsigned char m[1024];
	size_t n = message(m, DNS_A, 300, v4, 4, 2);

	CHECK_EQ(dns_answer_read(m, n, DNS_A, &a), 0);
	CHECK_EQ(a.n, 2);
	CHECK_EQ(a.ttl, 300);
	CHECK_EQ(a.addr[1][3], htonl(0x0a000001));
	CHECK_EQ(a.addr[1][2], htonl(0xffff));
	/* each way to cut it off */
	for (size_t cut = 0; cut < n; cut++)
		CHECK_EQ(dns_answer_read(m, cut, DNS_A, &a), -EBADMSG);
	/* records of another type are not what was asked for */
	CHECK_EQ(dns_answer_read(m, n, DNS_SRV, &a), 0);
	CHECK_EQ(a.n, 0);
	n = message(m, DNS_A, 300, v4, 3, 1);
	CHECK_EQ(dns_answer_read(m, n, DNS_A, &a), -EBADMSG);
	n = message(m, DNS_A, 0x80000001, v4, 4, 1);
	CHECK_EQ(dns_answer_read(m, n, DNS_A, &a), 0);
	CHECK_EQ(a.ttl, 0);

	n = message(m, DNS_SRV, 5, srv, sizeof(srv), 1);
	CHECK_EQ(dns_answer_read(m, n, DNS_SRV, &a), 0);
	CHECK_EQ(a.n, 1);
	CHECK_STR(a.srv[0].target, "b.a");
	CHECK_EQ(a.srv[0].port, 8000);
	CHECK_EQ(a.srv[0].priority, 3);
	/* a name that points to itself */
	n = message(m, DNS_SRV, 5, self, sizeof(self), 1);
	CHECK_EQ(dns_answer_read(m, n, DNS_SRV, &a), -EBADMSG);
	n = message(m, DNS_SRV, 5, srv, 6, 1);
	CHECK_EQ(dns_answer_read(m, n, DNS_SRV, &a), -EBADMSG);
	CHECK_EQ(dns_answer_read(m, 1 << 20, DNS_SRV, &a), -EBADMSG);
}

/* ---- a file ---- */

static struct event_base *base;
static char dir[] = "/tmp/kvsteer-watch-XXXXXX";
static char last[64];
static unsigned int changes;

static void changed(void *arg, const char *text, size_t len)
{
	(void)arg;
	CHECK_EQ(strlen(text), len);
	snprintf(last, sizeof(last), "%s", text);
	changes++;
}

static const char *at(const char *name)
{
	static char path[2][128];
	static int turn;

	turn = !turn;
	snprintf(path[turn], sizeof(path[0]), "%s/%s", dir, name);
	return path[turn];
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(at(name), "w");

	fputs(text, f);
	fclose(f);
}

static void expect(unsigned int n, const char *text)
{
	loop_until(base, &changes, n, 3000);
	CHECK_EQ(changes, n);
	CHECK_STR(last, text);
}

static void file(void)
{
	struct file_watch *w;
	char was[64];
	__u64 began;
	bool late;
	FILE *f;

	CHECK(mkdtemp(dir));
	CHECK_EQ(file_watch_new(base, at("f"), changed, NULL, &w), -ENOENT);
	put("f", "one");
	CHECK_EQ(file_watch_new(base, at("f"), changed, NULL, &w), 0);
	/* in place, by rename, by a link that is switched */
	put("f", "two");
	expect(1, "two");
	put("next", "three");
	CHECK(!rename(at("next"), at("f")));
	expect(2, "three");
	put("v1", "three");
	put("v2", "four");
	CHECK(!symlink("v1", at("data")));
	CHECK(!symlink("data", at("link")) && !rename(at("link"), at("f")));
	CHECK(!symlink("v2", at("data2")) && !rename(at("data2"), at("data")));
	expect(3, "four");
	/* the same text, and other files of the directory */
	put("v2", "four");
	put("other", "x");
	/* half a file, and the rest of it a little later */
	began = kv_now_ns();
	f = fopen(at("v2"), "w");
	fputs("fi", f);
	fflush(f);
	loop_for(base, FILE_WATCH_SETTLE_MS + 20);
	fputs("ve", f);
	fclose(f);
	/* on a busy machine the half may have been there for long enough */
	late = kv_now_ns() - began > 2 * FILE_WATCH_SETTLE_MS * 1000000ull - 20000000;
	if (late)
		loop_until(base, &changes, changes + (strcmp(last, "four") ? 1 : 2), 100);
	changes = late ? 4 : changes;
	expect(4, "five");
	/* gone, and back */
	CHECK(!unlink(at("f")));
	put("other", "y");
	loop_for(base, FILE_WATCH_SETTLE_MS * 3);
	CHECK_EQ(changes, 4);
	put("f", "six");
	expect(5, "six");
	/* the directory is another one: by rename, and anew */
	snprintf(was, sizeof(was), "%s.was", dir);
	CHECK(!rename(dir, was) && !mkdir(dir, 0700));
	put("f", "seven");
	expect(6, "seven");
	CHECK(!unlink(at("f")) && !rmdir(dir));
	loop_for(base, FILE_WATCH_SETTLE_MS * 2);
	CHECK(!rename(was, dir));
	put("f", "eight");
	expect(7, "eight");
	/* what was known before: the same, and another one */
	file_watch_known(w, file_watch_digest(w));
	loop_for(base, FILE_WATCH_SETTLE_MS * 3);
	CHECK_EQ(changes, 7);
	file_watch_known(w, file_watch_digest(w) ^ 2);
	expect(8, "eight");
	put("f", "nine");
	expect(9, "nine");
	put("f", "ten");
	file_watch_free(w);
	loop_for(base, 10);
	CHECK_EQ(changes, 9);
}

static void clean_up(void)
{
	static const char *const names[] = {"f", "v1", "v2", "data", "other"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		unlink(at(names[i]));
	rmdir(dir);
}

int main(void)
{
	kv_log_set_level(KV_LOG_ERROR);
	base = event_base_new();
	TEST("sets of addresses")
	sets();
	TEST("DNS messages")
	messages();
	TEST("a file that is written anew")
	file();
	clean_up();
	event_base_free(base);
	return check_done();
}

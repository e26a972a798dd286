/* SPDX-License-Identifier: BSD-2-Clause */
/* Aligned tables and bars for people. */
#ifndef KVSTEER_CLI_TABLE_H
#define KVSTEER_CLI_TABLE_H

#include <stdio.h>

#include <linux/types.h>

#define TABLE_BAR 10  /* characters of a bar */
#define TABLE_TEXT 64 /* room for a bar, or for a short number */

/* Columns are named by one string: "NAME ADDRESS >REQUESTS", > for numbers, aligned to the right.
 */
struct table {
	const char *columns;
	char **cells;
	size_t n;
	size_t room;
};

void table_add(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints every line behind indent, and frees the cells. */
void table_print(struct table *t, FILE *f, const char *indent);

/* part / whole as a bar; empty if whole is 0. Returns buf. */
char *bar(double part, double whole, char buf[TABLE_TEXT]);
/* 1234567 as "1.23M"; below 10000 as it is. */
char *short_number(__u64 n, char buf[TABLE_TEXT]);
/* Part of whole as "93%", "-" if whole is 0. */
char *percent(double part, double whole, char buf[TABLE_TEXT]);
/* "3d 4h", "2min 5s", "0.4s". */
char *short_time(double seconds, char buf[TABLE_TEXT]);

#endif

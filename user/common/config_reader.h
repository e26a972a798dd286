/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files that read the raw text of values. */
#ifndef KVSTEER_CONFIG_READER_H
#define KVSTEER_CONFIG_READER_H

#include "common/config_read.h"

#define READ_PATH_LEN 160

struct reader {
	struct kv_tree *tree;
	char scope[READ_PATH_LEN]; /* "", "limits", "services[0].backends[1]" */
};

int config_bad_value(struct reader *r, const char *key, const char *text);
/* A value that is not given leaves *value as it is: the default. */
int config_read_number(struct reader *r, const char *key, const char *text, __u64 *value);
/* true or false */
int config_read_flag(struct reader *r, const char *key, const char *text, bool *value);
int config_read_number32(struct reader *r, const char *key, const char *text, __u32 *value);

/* config_follow.c */
/* It goes into a request line as it is. size: with the end. */
bool config_path_ok(const char *path, size_t size);
int config_read_follow(struct reader *r, const struct kv_raw_config *raw, struct kv_config *config);

/* config_events.c */
int config_read_port(struct reader *r, const char *key, const char *text, __u16 *port);
int config_read_events(struct reader *r, const struct kv_raw_events *raw, __u32 index,
		       struct kv_service_events *events);

/* config_discover.c; capacity and rate are the service's */
int config_read_discover(struct reader *r, const struct kv_raw_discover *raw, __u32 index,
			 struct kv_service_discover *discover);

#endif

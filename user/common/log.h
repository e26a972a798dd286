/* SPDX-License-Identifier: BSD-2-Clause */
/* One line per message, to stderr. */
#ifndef KVSTEER_LOG_H
#define KVSTEER_LOG_H

enum kv_log_level {
	KV_LOG_ERROR,
	KV_LOG_WARN,
	KV_LOG_INFO, /* the level at start */
	KV_LOG_DEBUG,
};

void kv_log_set_level(enum kv_log_level level);
enum kv_log_level kv_log_level(void);
/* "error", "warning", "info" or "debug"; -EINVAL for anything else. */
int kv_log_level_parse(const char *text, enum kv_log_level *ret);
void kv_log(enum kv_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* libbpf's messages come here, each one level lower than libbpf means it: what the user is told
 * about a failure is said by the layer that knows the object. */
void kv_log_libbpf(void);

#define kv_err(...) kv_log(KV_LOG_ERROR, __VA_ARGS__)
#define kv_warn(...) kv_log(KV_LOG_WARN, __VA_ARGS__)
#define kv_info(...) kv_log(KV_LOG_INFO, __VA_ARGS__)
#define kv_debug(...) kv_log(KV_LOG_DEBUG, __VA_ARGS__)

#endif

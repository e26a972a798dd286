// SPDX-License-Identifier: BSD-2-Clause
#include "common/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/cleanup.h"

char *kv_json_line(const yyjson_mut_doc *doc, size_t *ret_len)
{
	return yyjson_mut_write(doc, YYJSON_WRITE_NEWLINE_AT_END, ret_len);
}

int kv_json_print(FILE *f, const yyjson_mut_doc *doc)
{
	_cleanup_free_ char *line = kv_json_line(doc, NULL);

	if (!line)
		return -ENOMEM;
	return fputs(line, f) < 0 ? -EIO : 0;
}

void kv_json_add_hex(yyjson_mut_doc *doc, yyjson_mut_val *obj, const char *key, __u64 value)
{
	char text[17];

	snprintf(text, sizeof(text), "%016" PRIx64, (uint64_t)value);
	yyjson_mut_obj_add_strcpy(doc, obj, key, text);
}

// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <string.h>

#include "tenant.h"

/* By the parser itself: what it would make of a request with this header. */
static int parse(const struct kv_names *names, const char *name, struct kv_request *r)
{
	char head[KV_FIELD_NAME_MAX + KV_TENANT_MAX + 64];
	int len = snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: a\r\n%.*s%s%s%s\r\n",
			   name ? KV_FIELD_NAME_MAX : 0, (const char *)names->tenant,
			   name ? ": " : "", name ?: "", name ? "\r\n" : "");
	struct kv_source s = {.data = (const __u8 *)head, .len = len};

	if (len >= (int)sizeof(head))
		return -1;
	return kv_request_parse(r, &s, names) == KV_LANE_REFUSE || r->n_fields != 1 + !!name ? -1
											     : 0;
}

int tenant_of(struct cli *cli, const struct kv_pins *pins, const char *name, struct tenant *ret)
{
	struct kv_names names = {0};
	struct kv_request r;
	__u32 zero = 0;
	int err = pins->map[KV_PIN_kv_names].value_size == sizeof(names)
			  ? kv_pins_lookup(pins, KV_PIN_kv_names, &zero, &names)
			  : -EPROTO;

	if (err)
		return cli_error(cli, "%s: cannot read the header names: %s", cli->pin,
				 strerror(-err));
	ret->on = kv_tenancy(&names);
	if (!ret->on)
		return name ? cli_usage(cli, "--as: this gateway has no tenancy") : 0;
	err = parse(&names, name, &r);
	explicit_bzero(&names, sizeof(names));
	if (err)
		return cli_usage(cli, "--as: \"%s\": expected a tenant of 1 to %d bytes", name,
				 KV_TENANT_MAX);
	ret->sip = r.tenant;
	return 0;
}

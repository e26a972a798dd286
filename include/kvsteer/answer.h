/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the status of a final response says of the backend: for the kernel's counts and the agent's
 * outcomes alike. */
#ifndef KVSTEER_ANSWER_H
#define KVSTEER_ANSWER_H

#include "types.h"

enum kv_answer {
	KV_ANSWER_GOOD,	 /* it is well; 4xx is the client's doing */
	KV_ANSWER_BUSY,	 /* back-pressure: well, and full */
	KV_ANSWER_FAULT, /* 5xx, or nothing that a final response may have */
};

KV_INLINE enum kv_answer kv_answer_of(__u32 status)
{
	if (status == 429 || status == 503)
		return KV_ANSWER_BUSY;
	/* A method or version that it does not know: the request's doing. */
	if (status == 501 || status == 505)
		return KV_ANSWER_GOOD;
	return status < 200 || status > 599 || status >= 500 ? KV_ANSWER_FAULT : KV_ANSWER_GOOD;
}

/* It has begun to serve the prompt, so it has it cached by now. Not after an error: 4xx and 503
 * come before the prompt is computed, after another 5xx nobody knows, and where the prompt did get
 * computed (a proxy's 504), to think that it did not costs less than the next one sent there. */
KV_INLINE bool kv_answer_caches(__u32 status)
{
	return status >= 200 && status < 400;
}

#endif /* KVSTEER_ANSWER_H */

# SPDX-License-Identifier: BSD-2-Clause
"""The stock OpenAI client: plain and streamed, chat, completions and responses, sync and async."""
import asyncio
import sys

from openai import AsyncOpenAI, NotFoundError, OpenAI

base, hint = sys.argv[1], sys.argv[2]
messages = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Hello"}]


def ask(client):
    plain = client.chat.completions.create(model="emulated", messages=messages, max_tokens=12)
    text = plain.choices[0].message.content
    assert plain.usage.completion_tokens == 12, plain
    stream = client.chat.completions.create(model="emulated", messages=messages, max_tokens=12,
                                            stream=True, stream_options={"include_usage": True})
    parts, usage = [], None
    for chunk in stream:
        usage = chunk.usage or usage
        parts += [c.delta.content or "" for c in chunk.choices]
    assert "".join(parts) == text, (parts, text)
    assert usage.completion_tokens == 12 and usage.prompt_tokens_details is not None

    plain = client.completions.create(model="emulated", prompt=["one", "two"], max_tokens=5)
    assert len(plain.choices) == 2
    stream = client.completions.create(model="emulated", prompt="one", max_tokens=5, stream=True)
    assert "".join(c.choices[0].text for c in stream if c.choices)

    plain = client.responses.create(model="emulated", input="Hello", max_output_tokens=5)
    stream = client.responses.create(model="emulated", input="Hello", max_output_tokens=5,
                                     stream=True)
    deltas = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
    assert deltas == plain.output_text, (deltas, plain.output_text)
    assert client.models.list().data[0].id == "emulated"
    return text


async def at_once(headers):
    async with AsyncOpenAI(base_url=base, api_key="none", default_headers=headers,
                           max_retries=0) as client:
        async def one(i):
            stream = await client.chat.completions.create(
                model="emulated", messages=messages + [{"role": "user", "content": str(i)}],
                max_tokens=20, stream=True)
            return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])

        first = await asyncio.gather(*(one(i) for i in range(16)))
        second = await asyncio.gather(*(one(i) for i in range(16)))
        assert first == second and len(set(first)) == 16


texts = set()
for headers in ({}, {"KV-Prefix": hint}, {"X-Session-Id": "openai"}):
    with OpenAI(base_url=base, api_key="none", default_headers=headers, max_retries=0) as client:
        texts.add(ask(client))
        try:
            client.get("/nowhere", cast_to=object)
            raise SystemExit("no error for /nowhere")
        except NotFoundError:
            pass
    asyncio.run(at_once(headers))
assert len(texts) == 1, texts
print("ok")

# SPDX-License-Identifier: BSD-2-Clause
"""Conversations: the same of every run, each with a system prompt that others share, growing by turns."""
import random

from world import MODEL

SYSTEMS = 4


class Talk:
    """One conversation. The next turn's prompt holds all before it, the engine's answers included."""

    def __init__(self, name, number, user=(200, 500), answer=(16, 90)):
        self.random = random.Random(f"{name}/{number}")
        self.user, self.answer = user, answer
        system = random.Random(f"{name}/system/{number % SYSTEMS}")
        self.messages = [{"role": "system", "content": self.words(system, 700)}]

    @staticmethod
    def words(source, length):
        made = ""
        while len(made) < length:
            made += "".join(source.choices("abcdefghijklmnopqrstuvwxyz", k=source.randint(2, 9))) + " "
        return made[:length]

    def ask(self):
        """The messages of the next turn."""
        self.messages.append({"role": "user", "content": self.words(self.random, self.random.randint(*self.user))})
        return self.messages

    def answered(self, text):
        self.messages.append({"role": "assistant", "content": text})

    def turn(self, api, messages=None):
        """Asks and takes the answer in; gives its usage: prompt tokens, cached tokens."""
        answer = api.chat.completions.create(
            model=MODEL, messages=messages or self.ask(), temperature=0,
            max_tokens=self.random.randint(*self.answer))
        self.answered(answer.choices[0].message.content)
        details = answer.usage.prompt_tokens_details
        return answer.usage.prompt_tokens, details.cached_tokens if details and details.cached_tokens else 0

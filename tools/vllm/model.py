# SPDX-License-Identifier: BSD-2-Clause
"""A model for tests: Llama of two layers with random weights (always the same), one token a byte, and a
chat template by which every conversation begins with its earlier turns. It answers in printable ASCII and
never ends by itself, so an answer has as many bytes as tokens, and as part of the next prompt is the same
tokens again. usage: model.py DIRECTORY"""
import json
import pathlib
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, logging

BYTES, BOS, EOS = 256, 256, 257
CONTEXT = 8192
SPREAD = 0.3  # of the weights: enough that each answer depends on all of its prompt
TEMPLATE = ("{% for m in messages %}<s>{{ m.role }}\n{{ m.content }}</s>{% endfor %}"
            "{% if add_generation_prompt %}<s>assistant\n{% endif %}")


def tokenizer(directory):
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(letters)} | {"<s>": BOS, "</s>": EOS},
                                merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<s>", "</s>"])
    made.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
        "model_max_length": CONTEXT, "chat_template": TEMPLATE}))
    return [made.token_to_id(chr(c)) for c in range(33, 127)]


def weights(directory, answers):
    logging.disable_progress_bar()
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=320, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, head_dim=32, max_position_embeddings=CONTEXT,
        tie_word_embeddings=False, initializer_range=SPREAD, bos_token_id=BOS, eos_token_id=EOS))
    with torch.no_grad():
        kept = model.lm_head.weight[answers].clone()
        model.lm_head.weight.zero_()
        model.lm_head.weight[answers] = kept
    model.to(torch.bfloat16).save_pretrained(directory)


target = pathlib.Path(sys.argv[1])
target.mkdir(exist_ok=True)
weights(target, tokenizer(target))

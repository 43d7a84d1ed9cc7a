"""Models and tokenizers of a few thousand numbers, and trainers that write nothing: for tests without a network."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = {word: i for i, word in enumerate(["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(40))])}

#: of every trainer
QUIET = {
    "report_to": "none",
    "use_cpu": True,
    "save_strategy": "no",
    "logging_steps": 1,
    "disable_tqdm": True,
    "max_grad_norm": 0.0,
    "lr_scheduler_type": "constant",
    "optim": "sgd",
    "learning_rate": 0.1,
}


def tokenizer(**options):
    core = Tokenizer(models.WordLevel(VOCABULARY, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=core, **special, **options)


def model(seed=0, kind=LlamaForCausalLM, config=LlamaConfig, **options):
    """A model with random weights, the same for the same seed."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    tokens = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None, "max_position_embeddings": 64}
    made = kind(config(vocab_size=len(VOCABULARY), classifier_dropout=0.0, **sizes, **tokens, **options))
    with torch.no_grad():
        for parameter in made.parameters():  # fresh models say nearly the same to everything
            parameter.mul_(5.0 if parameter.ndim > 1 else 1.0)
    return made


def weights(trained):
    return torch.cat([parameter.detach().flatten() for parameter in trained.parameters()])

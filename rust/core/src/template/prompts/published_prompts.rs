//! The prompts of Alpaca, `ChatML` and Vicuna.

/// The Stanford Alpaca prompt for an instruction without input.
pub(super) const ALPACA: &str = "Below is an instruction that describes a task. Write a response that appropriately \
                      completes the request.\n\n### Instruction:\n{instruction}\n\n### Response:\n";

/// The Stanford Alpaca prompt for an instruction with an input.
pub(super) const ALPACA_INPUT: &str = "Below is an instruction that describes a task, paired with an input that provides \
                            further context. Write a response that appropriately completes the request.\n\n\
                            ### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n";

/// The `ChatML` markup of `OpenAI`.
pub(super) const CHATML: &str =
    "<|im_start|>user\n{instruction}<|im_end|>\n<|im_start|>assistant\n{output}<|im_end|>";

/// The `ChatML` markup of `OpenAI` for a request with a system text.
pub(super) const CHATML_SYSTEM: &str = "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{instruction}<|im_end|>\n\
                             <|im_start|>assistant\n{output}<|im_end|>";

/// The Vicuna prompt, version 1.1.
pub(super) const VICUNA: &str = "A chat between a curious user and an artificial intelligence assistant. The assistant gives \
                      helpful, detailed, and polite answers to the user's questions. USER: {instruction} ASSISTANT: {output}";

/// The Vicuna prompt with a system text of the record.
pub(super) const VICUNA_SYSTEM: &str = "{system} USER: {instruction} ASSISTANT: {output}";

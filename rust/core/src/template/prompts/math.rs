//! The exact prompts of published models for mathematics.

use crate::config::{MathPrompt, PromptParts};

const ALPACA: &str = "Below is an instruction that describes a task. Write a response that appropriately \
                      completes the request.\n\n";
const BLANK_LINE: &str = "\n\n";
const DEEPSEEK_END: &str = "<｜end▁of▁sentence｜>";

/// The parts of the Stanford Alpaca prompt.
pub(super) fn alpaca() -> PromptParts {
    of([ALPACA, "### Instruction:\n", "\n\n", "### Response:\n", BLANK_LINE])
}

/// The parts of a prompt.
pub(super) fn parts(prompt: MathPrompt) -> PromptParts {
    of(match prompt {
        MathPrompt::Qa => ["", "User:\n", "\n\n", "Assistant:\n", BLANK_LINE],
        MathPrompt::WizardmathCot => [
            ALPACA,
            "### Instruction:\n",
            "\n\n",
            "### Response: Let's think step by step.",
            BLANK_LINE,
        ],
        MathPrompt::Deepseekmath => [
            "",
            "User: ",
            "\nPlease reason step by step, and put your final answer within \\boxed{}.\n\n",
            "Assistant: ",
            DEEPSEEK_END,
        ],
        MathPrompt::DeepseekmathTool => [
            "",
            "User: ",
            "\nPlease integrate natural language reasoning with programs to solve the problem above, and put your \
             final answer within \\boxed{}.\n\n",
            "Assistant: ",
            DEEPSEEK_END,
        ],
        MathPrompt::Xwinmath => [
            "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, \
             detailed, and polite answers to the user's questions. ",
            "USER: ",
            " Give your solution in detail. In the end, write your final answer in the format of 'The answer is: \
             <ANSWER>.'.  ",
            "ASSISTANT: ",
            BLANK_LINE,
        ],
        MathPrompt::Mammoth2Cot => [
            "You are supposed to provide a solution to a given problem.\n\n\n",
            "Problem:\n",
            "\n",
            "Solution: Let's think step by step.\n",
            BLANK_LINE,
        ],
        MathPrompt::Llama3Math => [
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nYou are a helpful agent on solving math \
             problems.<|eot_id|>",
            "<|start_header_id|>user<|end_header_id|>\n\n",
            "<|eot_id|>",
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
            "<|eot_id|>\n",
        ],
    })
}

fn of(parts: [&str; 5]) -> PromptParts {
    let [system, before, after, lead, delimiter] = parts.map(str::to_owned);
    PromptParts { system, before, after, lead, delimiter }
}

/// Continues texts with a language model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/data/vocabulary.hpp>
#include <mn/models/language_model.hpp>

namespace mn::jobs {

/// A text to continue, and its tokens.
struct Prompt {
  std::string text;
  std::vector<std::int32_t> tokens;
};

/// Collective: returns `text` or, if `file` is not empty, the lines of that file. Throws an equal error on all ranks if
/// the file can't be read, or if a text has no tokens and the vocabulary no end of text to begin after.
[[nodiscard]] std::vector<Prompt> prompts_of(const std::string& text, const std::string& file,
                                             const Vocabulary& vocabulary, Communicator& comm);

/// Prints each prompt and what follows it, and logs the speed. Only rank 0 works unless `on_all_ranks`.
void print_texts(models::LanguageModel& model, const std::vector<Prompt>& prompts, const Vocabulary& vocabulary,
                 std::int64_t context, const models::Sampling& how, bool on_all_ranks, Communicator& comm);

}  // namespace mn::jobs

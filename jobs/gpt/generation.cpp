#include "gpt/generation.hpp"

#include <chrono>
#include <iostream>

#include <mn/comm/on_root.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/log.hpp>
#include <mn/core/text.hpp>

namespace mn::jobs {
namespace {

std::vector<std::int32_t> tokens_of(const std::string& text, const Vocabulary& vocabulary) {
  std::vector<std::int32_t> tokens = vocabulary.encode(text);
  if (vocabulary.begin_of_text()) tokens.insert(tokens.begin(), *vocabulary.begin_of_text());
  if (tokens.empty() && vocabulary.end_of_text()) tokens.push_back(*vocabulary.end_of_text());
  if (tokens.empty()) throw UsageError("--generate needs a text: this vocabulary has no end of text to begin after");
  return tokens;
}

}  // namespace

std::vector<Prompt> prompts_of(const std::string& text, const std::string& file, const Vocabulary& vocabulary,
                               Communicator& comm) {
  std::vector<Prompt> prompts;
  if (file.empty()) return {{text, tokens_of(text, vocabulary)}};
  std::string lines;
  on_root<DataError>(
      comm, [&] { lines = read_file(file); }, true);
  lines = comm.bcast_obj(lines);
  if (lines.ends_with('\n')) lines.pop_back();
  for (const std::string_view line : split(lines, '\n')) {
    try {
      prompts.push_back({std::string(line), tokens_of(std::string(line), vocabulary)});
    } catch (const UsageError&) {
      throw DataError(file + ":" + std::to_string(prompts.size() + 1) +
                          " is empty: this vocabulary has no end of text " + "to begin after",
                      true);
    }
  }
  return prompts;
}

void print_texts(models::LanguageModel& model, const std::vector<Prompt>& prompts, const Vocabulary& vocabulary,
                 std::int64_t context, const models::Sampling& how, bool on_all_ranks, Communicator& comm) {
  if (comm.rank() != 0 && !on_all_ranks) return;
  model.eval();
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t count = 0;
  models::Sampling of_prompt = how;
  for (const Prompt& prompt : prompts) {
    const auto made = models::generate(model, prompt.tokens, context, of_prompt, comm.device());
    ++of_prompt.seed;  // equal prompts get different texts
    count += std::ssize(made);
    if (comm.rank() == 0) std::cout << prompt.text << vocabulary.decode(made, true) << std::endl;
  }
  const std::chrono::duration<double> s = std::chrono::steady_clock::now() - begin;
  OutText speed;
  speed << count << " tokens in " << s.count() << " s: " << static_cast<double>(count) / s.count() << " tokens/s";
  if (comm.rank() == 0) log_info(speed.str());
}

}  // namespace mn::jobs

#include <cstdlib>

#include <gtest/gtest.h>

#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/data/tokenizer/word_pattern.hpp>

namespace mn::data {
namespace {

/// make_tokenizers recorded the words of each pattern.
TEST(WordPattern, WordsAreThoseOfTokenizers) {
  const auto recorded =
      parse_json(read_file(std::string(std::getenv("MN_SOURCE_DIR")) + "/tests/data/word_patterns.json"), "recorded");
  const auto text = recorded.at("text").get<std::string>();
  for (const auto& [regex, words] : recorded.at("words").items()) {
    const WordPattern* const pattern = find_pattern(regex);
    ASSERT_NE(pattern, nullptr) << regex;
    std::size_t at = 0;
    for (const auto& word : words) {
      const auto found = first_word(*pattern, std::string_view(text).substr(at));
      ASSERT_EQ(found, word.get<std::size_t>()) << pattern->name << " at byte " << at << " of: " << text;
      at += found;
    }
    EXPECT_EQ(at, text.size()) << regex;
  }
}

}  // namespace
}  // namespace mn::data

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/data/vocabulary.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Tokens = std::vector<std::int32_t>;

/// Tokenizers in the style of each model, and what Python's tokenizers makes of texts; make_tokenizers wrote them.
const json& recorded() {
  static const json kRecorded =
      parse_json(read_file(std::string(std::getenv("MN_SOURCE_DIR")) + "/tests/data/tokenizers.json"), "recorded");
  return kRecorded;
}

json tokenizer_of(const std::string& style) { return recorded().at(style).at("tokenizer"); }

Vocabulary read(const json& document) { return Vocabulary::from_json(document, "it"); }

/// Encodes pieces of `text` of `piece` bytes as their end becomes known.
Tokens in_pieces(const Vocabulary& vocabulary, const std::string& text, std::size_t piece) {
  Tokens tokens;
  std::string rest;
  bool continues = false;
  const auto take = [&](std::size_t end) {
    const Tokens more = vocabulary.encode(std::string_view(rest).substr(0, end), continues);
    tokens.insert(tokens.end(), more.begin(), more.end());
    continues = continues || end > 0;
    rest.erase(0, end);
  };
  for (std::size_t at = 0; at < text.size(); at += piece) {
    rest += text.substr(at, piece);
    take(vocabulary.complete(rest));
  }
  take(rest.size());
  return tokens;
}

TEST(Tokenizer, TokensAndTextsAreThoseOfTokenizers) {
  for (const auto& [style, record] : recorded().items()) {
    const Vocabulary vocabulary = read(record.at("tokenizer"));
    for (const json& each : record.at("cases")) {
      const auto text = each[0].get<std::string>();
      EXPECT_EQ(vocabulary.encode(text), each[1].get<Tokens>()) << style << ": " << text;
      EXPECT_EQ(vocabulary.decode(each[1].get<Tokens>()), each[2].get<std::string>()) << style << ": " << text;
    }
    const auto begin = record.at("begin").get<Tokens>();
    EXPECT_EQ(vocabulary.begin_of_text().has_value(), !begin.empty()) << style;
    if (!begin.empty()) {
      EXPECT_EQ(vocabulary.begin_of_text(), begin.front()) << style;
    }
  }
}

TEST(Tokenizer, PiecesGiveTheTokensOfTheWhole) {
  std::string text;
  for (const json& each : recorded().at("gpt2").at("cases")) text += each[0].get<std::string>() + "a b\nc ";
  for (const auto& [style, record] : recorded().items()) {
    // With added tokens that end like words, can_cut() allows no cut.
    json document = record.at("tokenizer");
    std::erase_if(document.at("added_tokens").get_ref<json::array_t&>(),
                  [](const json& token) { return token.at("content") == "wurd" || token.at("content") == "<norm>x"; });
    const Vocabulary vocabulary = read(document);
    EXPECT_GT(vocabulary.complete(text), text.size() - 10) << style;
    for (const std::size_t piece : {1, 7, 64})
      EXPECT_EQ(in_pieces(vocabulary, text, piece), vocabulary.encode(text)) << style;
  }
}

TEST(Tokenizer, AnyBytesComeBack) {
  std::string bytes;
  for (int i = 0; i < 2000; ++i) bytes += static_cast<char>(i * i / 7 + i);
  for (const char* style : {"gpt2", "llama3", "o200k", "llama2", "mistral"}) {
    const Vocabulary vocabulary = read(tokenizer_of(style));
    EXPECT_EQ(vocabulary.decode(vocabulary.encode(bytes)), bytes) << style;
  }
}

TEST(Tokenizer, ATextThatGrowsTokenByTokenHasWholeCharacters) {
  const std::string text = "世界 👩‍👩‍👧é";
  const Vocabulary vocabulary = read(tokenizer_of("llama2"));
  std::string shown, rest;
  for (const std::int32_t token : vocabulary.encode(text)) {
    rest += vocabulary.decode(Tokens{token}, !shown.empty());
    const std::size_t whole = data::complete_characters(rest);
    for (std::size_t at = 0; at < whole;) {
      const int bytes = data::first_character(std::string_view(rest).substr(at, whole - at));
      ASSERT_GT(bytes, 0) << rest;
      at += static_cast<std::size_t>(bytes);
    }
    shown += rest.substr(0, whole);
    rest.erase(0, whole);
  }
  EXPECT_EQ(shown + rest, text);
}

TEST(Tokenizer, TheVocabularyComesBackAndIsATokenizerJson) {
  for (const auto& [style, record] : recorded().items()) {
    const Vocabulary vocabulary = read(record.at("tokenizer"));
    EXPECT_EQ(vocabulary.to_json(), record.at("tokenizer")) << style;
    EXPECT_EQ(read(vocabulary.to_json()), vocabulary) << style;
  }
  EXPECT_FALSE(read(tokenizer_of("gpt2")) == read(tokenizer_of("llama3")));
}

TEST(Tokenizer, MergesMayBeTexts) {
  json document = tokenizer_of("llama3");
  for (json& merge : document["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  EXPECT_EQ(read(document).encode("the cat sat"), read(tokenizer_of("llama3")).encode("the cat sat"));
}

TEST(Tokenizer, TheEndOfATextIsTheTemplatesOrAKnownToken) {
  EXPECT_EQ(read(tokenizer_of("gpt2")).end_of_text(), 373);
  json document = tokenizer_of("mistral");
  EXPECT_EQ(read(document).end_of_text(), 2);
  document["post_processor"]["single"].push_back({{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}});
  EXPECT_EQ(read(document).end_of_text(), 1);
  EXPECT_EQ(read(document).text(1), "");
}

/// A .tiktoken file of the 256 bytes, b + 1 being byte b's number, and of more tokens: token 0 is "ab".
std::string tiktoken_file() {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string file = "YWI= 0\n";
  for (unsigned byte = 0; byte < 256; ++byte) {
    file += {kDigits[byte >> 2], kDigits[(byte & 3) << 4], '=', '='};
    file += " " + std::to_string(byte + 1) + "\n";
  }
  return file + "YmM= 257\nYWJj 259\nY2Q= 260\n";  // "bc", "abc", "cd"; 258 is no token
}

TEST(Tokenizer, TiktokenMergesTheLowestNumberFirst) {
  const test::TemporaryFolder folder;
  write_file(folder.path() / "cl100k_base.tiktoken", tiktoken_file());
  const Vocabulary vocabulary = Vocabulary::load(folder.path() / "cl100k_base.tiktoken");
  EXPECT_THAT(vocabulary.encode("abc"), ElementsAre(259));            // a whole word
  EXPECT_THAT(vocabulary.encode("abcx"), ElementsAre(259, 'x' + 1));  // ab, then abc
  EXPECT_THAT(vocabulary.encode("xbc1234"), ElementsAre('x' + 1, 257, '1' + 1, '2' + 1, '3' + 1, '4' + 1));
  EXPECT_THAT(vocabulary.encode("bcd"), ElementsAre(257, 'd' + 1));
  EXPECT_EQ(vocabulary.end_of_text(), 261);
  EXPECT_EQ(vocabulary.decode(Tokens{259, 261, 258}), "abc");
  EXPECT_EQ(read(vocabulary.to_json()), vocabulary);
  write_file(folder.path() / "other.tiktoken", tiktoken_file());
  EXPECT_THAT([&] { (void)Vocabulary::load(folder.path() / "other.tiktoken"); },
              ThrowsMessage<DataError>(HasSubstr("no known encoding has 260 tokens")));
}

TEST(Tokenizer, BadTiktokenFilesAreErrorsThatNameThem) {
  const std::string good = tiktoken_file();
  for (const std::string& tokens : {std::string(), std::string("YWI= 0\n"), good + "YWI= 261\n", good + "eHk= 259\n",
                                    good + "eHk= -1\n", good + "eHk=\n", good + "eHk= 4194304\n",
                                    good + "eHk= 99999999999\n", good + "eHk= 4000000\n", good + "e?k= 300\n"}) {
    EXPECT_THAT(
        [&] {
          (void)read({{"vocabulary", "tiktoken"}, {"encoding", "cl100k_base"}, {"tokens", tokens}});
        },
        ThrowsMessage<DataError>(HasSubstr("it")))
        << tokens.substr(tokens.size() < 20 ? 0 : tokens.size() - 20);
  }
}

TEST(Tokenizer, WhatIsUnknownIsAnErrorThatPrintsIt) {
  const auto expect_error = [](const std::string& style, const std::string& path, const json& value,
                               const std::string& text) {
    json document = tokenizer_of(style);
    document[json::json_pointer(path)] = value;
    EXPECT_THAT([&] { (void)read(document); }, ThrowsMessage<DataError>(HasSubstr(text))) << path << " " << value;
  };
  expect_error("llama3", "/pre_tokenizer/pretokenizers/0/pattern/Regex", R"(\w+|\s)",
               R"(pattern is not known: "\\w+|\\s")");
  expect_error("gpt2", "/model/type", "WordPiece", "model is \"WordPiece\", not BPE");
  expect_error("gpt2", "/model/type", "Unigram", "\"Unigram\"");
  expect_error("gpt2", "/model/dropout", 0.5, "dropout");
  expect_error("gpt2", "/model/vocab/!", -1, "number -1");
  expect_error("gpt2", "/model/vocab/!", 5000000, "number 5000000");
  expect_error("gpt2", "/model/vocab/!", 1e300, "expected");
  expect_error("gpt2", "/model/vocab/!", 4000000, "number 4000000, but there are");
  expect_error("gpt2", "/model/vocab/!", 1, "have the same number 1");
  expect_error("gpt2", "/model/vocab", json::object(), "no token");
  expect_error("gpt2", "/model/vocab", json::array({1}), "it");
  expect_error("gpt2", "/model/merges/0", "a", "not of two tokens");
  expect_error("gpt2", "/model/merges/0", json::array({"a", "nowhere"}), "nowhere\", which is not a token");
  expect_error("gpt2", "/added_tokens/0/id", 1, "have the same number 1");
  expect_error("gpt2", "/added_tokens/0/content", "!", "has two numbers");
  expect_error("gpt2", "/decoder", nullptr, "decoder");
  expect_error("qwen2", "/normalizer/type", "Lowercase", "normalizer is not supported: {\"type\":\"Lowercase\"}");
  expect_error("gpt2", "/pre_tokenizer/type", "Whitespace", "pre-tokenizer is not supported");
  expect_error("llama2", "/model/byte_fallback", false, "not supported");
  expect_error("llama2", "/model/vocab/<0x41>", 1000000, "number 1000000, but there are");
  expect_error("mistral", "/post_processor/single/0/SpecialToken/id", "<none>", "it");
}

}  // namespace
}  // namespace mn

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/data/vocabulary.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::string kText = "the cat sat on the mat; the rat ran.  That's 42 rats\n\n\tat the hat ";

Vocabulary pairs_of(const std::string& text, std::int64_t size) {
  std::map<std::string, std::int64_t> words;
  for (std::size_t at = 0; at < text.size(); at += data::first_word(std::string_view(text).substr(at))) {
    ++words[text.substr(at, data::first_word(std::string_view(text).substr(at)))];
  }
  return Vocabulary::of_merges(train_merges(words, size));
}

std::string random_bytes(std::uint64_t seed, std::size_t length) {
  std::mt19937_64 numbers(seed);
  std::string bytes;
  while (bytes.size() < length) bytes += static_cast<char>(numbers() % (seed % 2 == 0 ? 256 : 6) + (seed % 2) * 30);
  return bytes;
}

TEST(Vocabulary, AnyBytesComeBack) {
  const Vocabulary pairs = pairs_of(kText, 300);
  EXPECT_GT(pairs.size(), 260);
  for (const Vocabulary& vocabulary : {Vocabulary::of_bytes(), pairs}) {
    EXPECT_EQ(vocabulary.decode(vocabulary.encode(kText)), kText);
    EXPECT_EQ(vocabulary.decode(vocabulary.encode("")), "");
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const std::string bytes = random_bytes(seed, 300);
      EXPECT_EQ(vocabulary.decode(vocabulary.encode(bytes)), bytes) << seed;
    }
  }
  EXPECT_LT(pairs.encode(kText).size(), kText.size() * 2 / 3);
}

TEST(Vocabulary, SurrogatesOverlongSequencesAndNumbersBeyondUnicodeAreNotUtf8) {
  for (const char* bytes :
       {"\xED\xA0\x80", "\xED\xBF\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xC1\xBF"}) {
    EXPECT_EQ(data::first_character(bytes), -1) << bytes;
  }
  for (const std::string bytes :
       {"\xED\x9F\xBF", "\xEE\x80\x80", "\xE0\xA0\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "\xC2\x80"}) {
    EXPECT_EQ(data::first_character(bytes), static_cast<int>(bytes.size())) << bytes;
    EXPECT_EQ(data::first_character(bytes.substr(0, 1)), -2) << bytes;
  }
}

TEST(Vocabulary, TheEndOfATextIsATokenThatNoTextHas) {
  EXPECT_FALSE(Vocabulary::of_bytes().end_of_text().has_value());
  for (const Vocabulary& plain :
       {Vocabulary::of_bytes(), pairs_of(kText, 300), Vocabulary::of_characters({"a", "é"})}) {
    const Vocabulary vocabulary = Vocabulary(plain).with_end_of_text().with_end_of_text();
    EXPECT_EQ(vocabulary.size(), plain.size() + 1);
    EXPECT_EQ(vocabulary.end_of_text(), plain.size());
    EXPECT_EQ(vocabulary.encode("aéa"), plain.encode("aéa"));
    EXPECT_EQ(vocabulary.decode(std::vector<std::int32_t>{0, plain.size(), 1}), plain.text(0) + plain.text(1));
    EXPECT_EQ(Vocabulary::from_json(vocabulary.to_json(), "it"), vocabulary);
    EXPECT_EQ(Vocabulary::from_json(plain.to_json(), "it"), plain);
    EXPECT_FALSE(vocabulary == plain);
  }
}

TEST(Vocabulary, CharactersAreUtf8) {
  const Vocabulary vocabulary = Vocabulary::of_characters({"a", "é", "€", "😀"});
  EXPECT_THAT(vocabulary.encode("😀aé€"), ElementsAre(3, 0, 1, 2));
  EXPECT_EQ(vocabulary.decode(std::vector<std::int32_t>{2, 1}), "€é");
  EXPECT_THAT([&] { (void)vocabulary.encode("b"); },
              ThrowsMessage<ArgumentError>(HasSubstr("lacks the character \"b\"")));
  EXPECT_THAT([&] { (void)vocabulary.encode("a\xC3"); }, ThrowsMessage<ArgumentError>(HasSubstr("not UTF-8")));
  EXPECT_THROW((void)vocabulary.decode(std::vector<std::int32_t>{4}), ArgumentError);
  EXPECT_THROW((void)vocabulary.decode(std::vector<std::int32_t>{-1}), ArgumentError);
}

/// By hand: "ab" occurs five times, then "abc" three times; "c" before it never joins across words.
TEST(Vocabulary, TheMostFrequentPairIsMergedFirst) {
  const auto merges = train_merges({{"abc", 3}, {"ab", 2}, {"cd", 1}}, 258);
  EXPECT_THAT(merges, ElementsAre(Vocabulary::Merge('a', 'b'), Vocabulary::Merge(256, 'c')));
  EXPECT_EQ(train_merges({{"abc", 3}, {"ab", 2}, {"cd", 1}}, 1000), merges);  // no other pair occurs twice
  const Vocabulary vocabulary = Vocabulary::of_merges(merges);
  EXPECT_THAT(vocabulary.encode("abcab"), ElementsAre(257, 256));
  EXPECT_EQ(vocabulary.text(257), "abc");
}

TEST(Vocabulary, EqualPairsAreMergedInTheOrderOfTheirTokens) {
  EXPECT_THAT(train_merges({{"xy", 2}, {"ab", 2}, {"aa", 2}}, 258),
              ElementsAre(Vocabulary::Merge('a', 'a'), Vocabulary::Merge('a', 'b')));
}

/// Counts everything again in each round.
std::vector<Vocabulary::Merge> simple_merges(const std::map<std::string, std::int64_t>& words, std::int64_t size) {
  std::vector<std::pair<std::vector<std::int32_t>, std::int64_t>> all;
  for (const auto& [word, weight] : words) all.push_back({Vocabulary::of_bytes().encode(word), weight});
  std::vector<Vocabulary::Merge> merges;
  while (256 + static_cast<std::int64_t>(merges.size()) < size) {
    std::map<Vocabulary::Merge, std::int64_t> counts;
    for (const auto& [tokens, weight] : all) {
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) counts[{tokens[i], tokens[i + 1]}] += weight;
    }
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == counts.end() || most->second < 2) break;
    const auto token = static_cast<std::int32_t>(256 + merges.size());
    merges.push_back(most->first);
    for (auto& [tokens, weight] : all) {
      std::vector<std::int32_t> merged;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const bool here = i + 1 < tokens.size() && Vocabulary::Merge(tokens[i], tokens[i + 1]) == merges.back();
        merged.push_back(here ? token : tokens[i]);
        i += here ? 1 : 0;
      }
      tokens = merged;
    }
  }
  return merges;
}

TEST(Vocabulary, TrainingIsThatOfCountingAnew) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 numbers(seed);
    std::map<std::string, std::int64_t> words;
    for (int i = 0; i < 30; ++i) {
      std::string word;
      for (std::uint64_t k = numbers() % 9 + 1; k > 0; --k) word += static_cast<char>('a' + numbers() % 3);
      words[word] += static_cast<std::int64_t>(numbers() % 5);
    }
    EXPECT_EQ(train_merges(words, 290), simple_merges(words, 290)) << seed;
  }
}

TEST(Vocabulary, PiecesGiveTheTokensOfTheWhole) {
  const Vocabulary letters = Vocabulary::of_characters({"a", "é", " ", "€"});
  const std::vector<std::pair<Vocabulary, std::string>> cases = {
      {Vocabulary::of_bytes(), kText}, {pairs_of(kText, 300), kText + kText}, {letters, "aé €€a é"}};
  for (const auto& [vocabulary, text] : cases) {
    for (std::size_t piece = 1; piece < 12; ++piece) {
      std::vector<std::int32_t> tokens;
      std::string rest;
      const auto take = [&](std::size_t end) {
        const auto more = vocabulary.encode(std::string_view(rest).substr(0, end));
        tokens.insert(tokens.end(), more.begin(), more.end());
        rest.erase(0, end);
      };
      for (std::size_t at = 0; at < text.size(); at += piece) {
        rest += text.substr(at, piece);
        take(vocabulary.complete(rest));
      }
      take(rest.size());
      EXPECT_EQ(tokens, vocabulary.encode(text)) << piece;
    }
  }
}

TEST(Vocabulary, TheFileComesBack) {
  const test::TemporaryFolder folder;
  for (const Vocabulary& vocabulary :
       {Vocabulary::of_bytes(), Vocabulary::of_characters({"\n", "é"}), pairs_of(kText, 280)}) {
    write_file(folder.path() / "vocabulary.json", vocabulary.to_json().dump());
    EXPECT_EQ(Vocabulary::load(folder.path() / "vocabulary.json"), vocabulary);
  }
}

TEST(Vocabulary, BadFilesAreErrorsThatNameThem) {
  const std::string deep =
      R"([[97,98],[256,256],[257,257],[258,258],[259,259],[260,260],[261,261],[262,262],[263,263]])";
  for (const std::string text :
       {"", "{", "[]", R"({"vocabulary":"words"})", R"({"vocabulary":"characters"})",
        R"({"vocabulary":"characters","characters":[]})", R"({"vocabulary":"characters","characters":["ab"]})",
        R"({"vocabulary":"characters","characters":["a","a"]})", R"({"vocabulary":"bpe","merges":[[0,256]]})",
        R"({"vocabulary":"bpe","merges":[[-1,0]]})", R"({"vocabulary":"bpe","merges":[[0]]})",
        R"({"vocabulary":"bpe","merges":[[0,1],[0,1]]})"}) {
    EXPECT_THAT([&] { (void)Vocabulary::from_json(parse_json(text, "v.json"), "v.json"); },
                ThrowsMessage<DataError>(HasSubstr("v.json")))
        << text;
  }
  EXPECT_THROW((void)Vocabulary::from_json(parse_json(R"({"vocabulary":"bpe","merges":)" + deep + "}", "v"), "v"),
               DataError);
}

}  // namespace
}  // namespace mn

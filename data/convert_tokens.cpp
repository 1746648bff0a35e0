// Texts → tokens → samples of so many tokens.
//
// Rank 0 makes the vocabulary and writes all tokens into one file of the scratch folder; all processes then make
// shards of ranges of it.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/vocabulary.hpp>

#include "data/convert.hpp"
#include "data/fixed_conversion.hpp"
#include "data/text_files.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using Files = std::vector<fs::path>;

constexpr const char* kTokens = "tokens";  // int32, in the scratch folder

/// Calls use(text) for texts that end where tokens may.
template <class Complete, class Use>
void for_each_text(const Files& files, const Complete& complete, const Use& use) {
  std::string rest;
  read_texts(files, [&](std::string_view piece) {
    rest += piece;
    const std::size_t end = complete(rest);
    use(std::string_view(rest).substr(0, end));
    rest.erase(0, end);
  });
  use(rest);
}

Vocabulary characters_of(const Files& files) {
  std::set<std::string> found;
  std::int64_t at = 0;
  const auto take = [&](std::string_view text) {
    while (!text.empty()) {
      const int length = first_character(text);
      if (length < 1) {
        throw DataError("the texts are not UTF-8 at byte " + std::to_string(at) + " of " + files.front().string() +
                            (files.size() > 1 ? " and the files after it" : "") +
                            ": give --vocabulary bytes or bpe, or convert them with iconv",
                        true);
      }
      found.emplace(text.substr(0, static_cast<std::size_t>(length)));
      text.remove_prefix(static_cast<std::size_t>(length));
      at += length;
    }
  };
  const auto complete = [](std::string_view text) {
    std::size_t end = text.size();  // a character has at most 4 bytes
    for (std::size_t back = 1; back <= std::min<std::size_t>(4, text.size()); ++back) {
      if (first_character(text.substr(text.size() - back)) == -2) end = text.size() - back;
    }
    return end;
  };
  for_each_text(files, complete, take);
  if (found.empty()) throw DataError(files.front().string() + " holds no text", true);
  return Vocabulary::of_characters({found.begin(), found.end()});
}

Vocabulary merges_of(const Files& files, std::int64_t size) {
  std::map<std::string, std::int64_t> words;
  const Vocabulary cutter = Vocabulary::of_merges({});
  const auto take = [&](std::string_view text) {
    while (!text.empty()) {
      const std::size_t length = first_word(text);
      ++words[std::string(text.substr(0, length))];
      text.remove_prefix(length);
    }
  };
  for_each_text(
      files, [&](std::string_view text) { return cutter.complete(text); }, take);
  return Vocabulary::of_merges(train_merges(words, size));
}

Vocabulary make_vocabulary(const Files& files, const TokenOptions& options) {
  if (!options.vocabulary_file.empty()) return Vocabulary::load(options.vocabulary_file);
  if (options.vocabulary == "bytes") return Vocabulary::of_bytes();
  return options.vocabulary == "characters" ? characters_of(files) : merges_of(files, options.vocabulary_size);
}

void write_tokens(const Files& files, const Vocabulary& vocabulary, const fs::path& path) {
  std::ofstream out(path, std::ios::binary);
  const auto take = [&](std::string_view text) {
    try {
      const std::vector<std::int32_t> tokens = vocabulary.encode(text);
      out.write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(tokens.size() * 4));
    } catch (const ArgumentError& error) {
      throw DataError("the texts that begin with " + files.front().string() + ": " + error.what(), true);
    }
  };
  for_each_text(
      files, [&](std::string_view text) { return vocabulary.complete(text); }, take);
  if (!out.flush()) throw DataError("cannot write " + path.string());
}

DType dtype_for(std::int32_t vocabulary) {
  return vocabulary <= 1 << 8 ? DType::kUInt8 : vocabulary <= 1 << 15 ? DType::kInt16 : DType::kInt32;
}

/// Ranges of the file of tokens.
class TokenSamples final : public SampleSource {
 public:
  /// Of the tokens from part `first` to part `last` of all.
  TokenSamples(const fs::path& path, std::int32_t vocabulary, std::int64_t context, double first, double last)
      : file_(path, File::Mode::kRead), context_(context) {
    const auto all = static_cast<std::int64_t>(file_.size()) / 4;
    const auto token_at = [&](double part) { return static_cast<std::int64_t>(static_cast<double>(all) * part); };
    begin_ = token_at(first);
    size_ = std::max<std::int64_t>(token_at(last) - begin_ - 1, 0) / context;
    spec_ = {
        .fields = {
            {.name = "tokens", .dtype = dtype_for(vocabulary), .shape = {context + 1}, .num_classes = vocabulary}}};
  }
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const SampleSpec& spec() const override { return spec_; }
  [[nodiscard]] std::string name() const override { return "the texts"; }

  void read(std::int64_t first, std::int64_t last, RawSamples& samples) const override {
    std::vector<std::int32_t> tokens((last - first) * context_ + 1);
    file_.read_at((begin_ + first * context_) * 4, std::as_writable_bytes(std::span(tokens)));
    samples.reset(spec_, last - first);
    std::byte* out = samples.columns[0].bytes.data();
    const std::size_t bytes = size_of(spec_[0].dtype);
    for (std::int64_t i = 0; i < last - first; ++i) {
      for (std::int64_t k = 0; k <= context_; ++k, out += bytes) {
        std::copy_n(reinterpret_cast<const std::byte*>(&tokens[i * context_ + k]), bytes, out);  // little endian
      }
    }
  }

 private:
  File file_;
  std::int64_t context_;
  std::int64_t begin_ = 0;
  std::int64_t size_ = 0;
  SampleSpec spec_;
};

nlohmann::json request_of(const Files& files, const TokenOptions& options) {
  nlohmann::json facts = {
      {"vocabulary", options.vocabulary},
      {"size", options.vocabulary_size},
      {"file", options.vocabulary_file.empty() ? nlohmann::json() : source_facts(options.vocabulary_file)},
      {"context", options.context},
      {"val_part", options.val_part}};
  for (const fs::path& file : files) facts["sources"].push_back(source_facts(file));
  return facts;
}

}  // namespace

ConversionResult convert_tokens(const Files& files, const TokenOptions& tokens, const ConvertOptions& options) {
  const fs::path vocabulary_path = options.out / "vocabulary.json";
  const auto open_from = [&](double first, double last) {
    return [&, first, last](const fs::path& scratch, bool planning) -> std::shared_ptr<const SampleSource> {
      if (planning && first == 0) {
        const Vocabulary vocabulary = make_vocabulary(files, tokens);
        write_file(vocabulary_path, vocabulary.to_json().dump());
        write_tokens(files, vocabulary, scratch / kTokens);
      }
      const std::int32_t size = Vocabulary::load(vocabulary_path).size();
      auto samples = std::make_shared<TokenSamples>(scratch / kTokens, size, tokens.context, first, last);
      if (samples->size() > 0) return samples;
      throw DataError("the texts are too short: " + std::string(first > 0 ? "validation" : "training") +
                          " has not one sample of " + std::to_string(tokens.context) +
                          " tokens (--context, --val-part)",
                      true);
    };
  };
  const auto split = [&](const std::string& name, double first, double last) {
    return FixedSplit{.output = {options.out / name, name},
                      .request = request_of(files, tokens),
                      .attributes = {{"converter", "mnshard tokens"}, {"source", files.front().filename().string()}},
                      .open = open_from(first, last)};
  };
  const double border = 1 - tokens.val_part;
  std::vector<FixedSplit> splits = {split("train", 0, border)};
  if (tokens.val_part > 0) splits.push_back(split("val", border, 1));
  FixedConversion conversion(std::move(splits), options.shard_bytes);
  return run_conversion(conversion, options);
}

}  // namespace mn::data

/// Opens datasets whose samples are sequences of tokens, and the vocabulary of the tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <mn/app/app.hpp>
#include <mn/data/vocabulary.hpp>

namespace mn::jobs {

struct GptData {
  std::shared_ptr<DataLoader> train;
  std::vector<app::ValidationSet> val;
  Vocabulary vocabulary;
  std::int64_t context;  ///< number of tokens in a sample, without the last target
};

/// Collective: reads a vocabulary. If `vocabulary` is empty, reads the file vocabulary.json beside the folder of the
/// dataset `train`. If `train` is empty, gpt/train is meant. If the vocabulary cannot be read, throws the same
/// DataError on all ranks.
[[nodiscard]] Vocabulary open_vocabulary(const std::string& train, const std::string& vocabulary, Communicator& comm);

/// Collective: opens the datasets `train` and `val`, and reads the vocabulary as open_vocabulary() does. If a name is
/// empty, gpt/train or gpt/val is meant. Throws the same DataError or UsageError on all ranks if training data,
/// validation data and vocabulary do not match.
[[nodiscard]] GptData open_gpt(const std::string& train, const std::string& val, const std::string& vocabulary,
                               const app::CommonOptions& common, const std::shared_ptr<Communicator>& comm);

}  // namespace mn::jobs

/// Datasets whose samples are sequences of tokens, and the vocabulary of the tokens.
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
  std::int64_t context;  ///< number of tokens of a sample, not counting the last target
};

/// Reads a vocabulary. If `vocabulary` is empty, reads vocabulary.json beside the folder of the dataset `train`. An
/// empty `train` means gpt/train. Collective. If the vocabulary can't be read, throws the same DataError on all ranks.
[[nodiscard]] Vocabulary open_vocabulary(const std::string& train, const std::string& vocabulary, Communicator& comm);

/// Opens the datasets `train` and `val`, and the vocabulary as open_vocabulary() does. Collective. Empty names mean
/// gpt/train and gpt/val. Throws the same DataError or UsageError on all ranks if training data, validation data and
/// vocabulary do not match.
[[nodiscard]] GptData open_gpt(const std::string& train, const std::string& val, const std::string& vocabulary,
                               const app::CommonOptions& common, const std::shared_ptr<Communicator>& comm);

}  // namespace mn::jobs

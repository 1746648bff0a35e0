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
  std::int64_t context;  ///< tokens of a sample, not counting the last target
};

/// Collective. An empty `vocabulary` means vocabulary.json beside the folder of the dataset `train`; an empty `train`
/// means gpt/train. Throws the same DataError on all ranks.
[[nodiscard]] Vocabulary open_vocabulary(const std::string& train, const std::string& vocabulary, Communicator& comm);

/// Collective. Empty names mean the datasets gpt/train and gpt/val; `vocabulary` means the same as for
/// open_vocabulary(). Throws the same DataError or UsageError on all ranks if training data, validation data and
/// vocabulary do not match.
[[nodiscard]] GptData open_gpt(const std::string& train, const std::string& val, const std::string& vocabulary,
                               const app::CommonOptions& common, const std::shared_ptr<Communicator>& comm);

}  // namespace mn::jobs

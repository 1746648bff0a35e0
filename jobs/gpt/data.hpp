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
  bool is_packed;        ///< training samples hold several documents
};

/// Collective: reads the vocabulary from the file `vocabulary`, or, if this name is empty, from vocabulary.json beside
/// the folder of the dataset `train` (gpt/train if empty). Throws the same DataError on all ranks if this fails.
[[nodiscard]] Vocabulary open_vocabulary(const std::string& train, const std::string& vocabulary, Communicator& comm);

/// Collective: opens the datasets `train` and `val` (gpt/train and gpt/val if empty), and reads the vocabulary as
/// open_vocabulary() does. Throws the same DataError or UsageError on all ranks if they do not match.
[[nodiscard]] GptData open_gpt(const std::string& train, const std::string& val, const std::string& vocabulary,
                               const app::CommonOptions& common, const std::shared_ptr<Communicator>& comm);

}  // namespace mn::jobs

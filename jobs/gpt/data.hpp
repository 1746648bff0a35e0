/// Samples of tokens, and the vocabulary that they are of.
#pragma once

#include <memory>
#include <string>

#include <mn/app/app.hpp>
#include <mn/data/vocabulary.hpp>

namespace mn::jobs {

struct GptData {
  std::shared_ptr<DataLoader> train;
  std::shared_ptr<DataLoader> val;
  Vocabulary vocabulary;
  std::int64_t context;  ///< tokens of a sample, beside the one that follows
};

/// Collective. Empty `vocabulary`: vocabulary.json beside the folder of the dataset `train`, or of gpt/train if that is
/// empty. Throws the same DataError on all ranks.
[[nodiscard]] Vocabulary open_vocabulary(const std::string& train, const std::string& vocabulary, Communicator& comm);

/// Collective. Empty names: the datasets gpt/train and gpt/val; `vocabulary` as above. Throws the same DataError or
/// UsageError on all ranks if they do not belong together.
[[nodiscard]] GptData open_gpt(const std::string& train, const std::string& val, const std::string& vocabulary,
                               const app::CommonOptions& common, const std::shared_ptr<Communicator>& comm);

}  // namespace mn::jobs

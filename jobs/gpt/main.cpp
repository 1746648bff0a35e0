/// jobs/gpt: trains a language model like GPT-2, on tokens from `mnshard tokens`.
#include <iostream>

#include <torch/torch.h>

#include <mn/app/app.hpp>
#include <mn/models/gpt.hpp>

#include "gpt/data.hpp"
#include "gpt/loss.hpp"
#include "gpt/options.hpp"

namespace {

using mn::jobs::GptData;
using mn::jobs::GptSettings;
using mn::models::Gpt;

/// The file with the weights to evaluate or to begin with; empty: random weights.
const std::string& weights_of(const GptSettings& given) {
  return given.evaluate.empty() ? given.initmodel : given.evaluate;
}

std::vector<std::int32_t> prompt_of(const std::string& text, const mn::Vocabulary& vocabulary) {
  std::vector<std::int32_t> prompt = vocabulary.encode(text);
  if (prompt.empty() && vocabulary.end_of_text()) prompt.push_back(*vocabulary.end_of_text());
  if (prompt.empty())
    throw mn::UsageError("--generate needs a text: this vocabulary has no end of text to begin after");
  return prompt;
}

mn::app::Training make_generation(GptSettings& given, const mn::Metadata& metadata,
                                  const std::shared_ptr<mn::Communicator>& comm) {
  if (!metadata.contains("context")) {
    throw mn::DataError(given.initmodel + " does not tell the context of its network: jobs/gpt writes files that do",
                        true);
  }
  const auto vocabulary = mn::jobs::open_vocabulary(given.train, given.vocabulary, *comm);
  given.network.vocabulary = vocabulary.size();
  const auto model = mn::app::make_model(given, comm, [&] { return std::make_shared<Gpt>(given.network); });
  const auto write = [=, &given, prompt = prompt_of(given.generate, vocabulary)] {
    if (comm->rank() != 0 && given.network.experts == 0) return 0;  // with experts, all ranks take part
    model->eval();
    const auto tokens = mn::models::generate(*model, prompt, given.network.context, given.sampling, comm->device());
    if (comm->rank() == 0) std::cout << given.generate << vocabulary.decode(tokens) << std::endl;
    return 0;
  };
  return {.model = model, .instead = write};
}

mn::app::Training make_training(GptSettings& given, const mn::Options& options,
                                const std::shared_ptr<mn::Communicator>& comm) {
  given.sampling.seed = static_cast<std::uint64_t>(given.seed);
  mn::Metadata metadata;
  if (const std::string& file = weights_of(given); !file.empty() && !given.initmodel_partial) {
    metadata = mn::load_metadata(file, *comm);
    mn::jobs::take_network(metadata, file, options, given.network);
  }
  mn::jobs::check_experts(given);
  given.network.ranks = comm;
  if (given.generates) return make_generation(given, metadata, comm);
  const auto data =
      std::make_shared<GptData>(mn::jobs::open_gpt(given.train, given.val, given.vocabulary, given, comm));
  given.network.vocabulary = data->vocabulary.size();
  given.network.context = data->context;
  const auto model = mn::app::make_model(given, comm, [&] { return std::make_shared<Gpt>(given.network); });
  std::vector<float> lengths;
  for (std::int32_t i = 0; i < data->vocabulary.size(); ++i) lengths.push_back(data->vocabulary.text(i).size());
  const auto bytes_of = torch::tensor(lengths).to(comm->device());
  return {
      .model = model,
      .train = data->train,
      .validations = data->val,
      .loss = [=, recompute = given.recompute](
                  const mn::Batch& batch,
                  mn::Summary& report) { return mn::jobs::loss_of(*model, batch, bytes_of, recompute, report); },
      .rate = mn::jobs::base_rate(given),
      .report_every = mn::Interval(static_cast<double>(given.report_every), "iteration"),
      .metric = "bits_per_byte",
      .unit = "tokens",
      .units_per_sample = static_cast<double>(data->context),
      .banner = {"Num tokens of the vocabulary: " + std::to_string(data->vocabulary.size()),
                 "Num training tokens: " + std::to_string(data->train->dataset_size() * data->context),
                 "Context: " + std::to_string(data->context)},
      .metadata = mn::jobs::metadata_of(given.network),
  };
}

}  // namespace

int main(int argc, char** argv) {
  GptSettings given;
  mn::Options options("usage: jobs/gpt [options]\nTrains a language model as GPT-2, or continues a text with one.");
  mn::jobs::declare_options(options, given);
  return mn::app::run_training(argc, argv, options, given, [&](const std::shared_ptr<mn::Communicator>& comm) {
    return make_training(given, options, comm);
  });
}

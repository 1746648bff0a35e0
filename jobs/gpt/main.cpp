/// jobs/gpt: a language model as GPT-2, trained on tokens that `mnshard tokens` makes of texts.
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

int write_text(const GptSettings& given, const GptData& data, Gpt& model, const mn::Communicator& comm) {
  if (comm.rank() != 0) return 0;
  model.eval();
  const auto tokens =
      mn::models::generate(model, data.vocabulary.encode(given.generate), data.context, given.sampling, comm.device());
  std::cout << given.generate << data.vocabulary.decode(tokens) << std::endl;
  return 0;
}

mn::app::Training make_training(GptSettings& given, const std::shared_ptr<mn::Communicator>& comm) {
  const auto data =
      std::make_shared<GptData>(mn::jobs::open_gpt(given.train, given.val, given.vocabulary, given, comm));
  given.network.vocabulary = data->vocabulary.size();
  given.network.context = data->context;
  given.sampling.seed = static_cast<std::uint64_t>(given.seed);
  const auto model = std::make_shared<Gpt>(given.network);
  std::vector<float> lengths;
  for (std::int32_t i = 0; i < data->vocabulary.size(); ++i) lengths.push_back(data->vocabulary.text(i).size());
  const auto bytes_of = torch::tensor(lengths).to(comm->device());
  mn::app::Training training{
      .model = model,
      .train = data->train,
      .validation = data->val,
      .loss = [=, recompute = given.recompute](
                  const mn::Batch& batch,
                  mn::Summary& report) { return mn::jobs::loss_of(*model, batch, bytes_of, recompute, report); },
      .rate = mn::jobs::base_rate(given),
      .report_every = mn::Interval(static_cast<double>(given.report_every), "iteration"),
      .metric = "bits_per_byte",
      .banner = {"Num tokens of the vocabulary: " + std::to_string(data->vocabulary.size()),
                 "Num training tokens: " + std::to_string(data->train->dataset_size() * data->context),
                 "Context: " + std::to_string(data->context)},
  };
  if (!given.generate.empty()) training.instead = [=, &given] { return write_text(given, *data, *model, *comm); };
  return training;
}

}  // namespace

int main(int argc, char** argv) {
  GptSettings given;
  mn::Options options("usage: jobs/gpt [options]\nTrains a language model as GPT-2, or continues a text with one.");
  mn::jobs::declare_options(options, given);
  return mn::app::run_training(argc, argv, options, given, [&](const std::shared_ptr<mn::Communicator>& comm) {
    return make_training(given, comm);
  });
}

/// jobs/gpt: a language model as GPT-2, trained on tokens that `mnshard tokens` makes of texts.
#include <cmath>
#include <iostream>

#include <torch/torch.h>

#include <mn/app/app.hpp>
#include <mn/models/gpt.hpp>

#include "gpt/data.hpp"

namespace {

using mn::jobs::GptData;
using mn::models::Gpt;

struct Settings : mn::app::CommonOptions {
  std::string train;
  std::string val;
  std::string vocabulary;
  mn::models::GptOptions network;
  bool recompute = false;
  std::int64_t report_every = 250;
  std::string generate;
  mn::models::Sampling sampling;

  /// nanoGPT's small network for CPUs, whose rates are for minibatches of 12.
  Settings() {
    batchsize = 12;
    epoch = 1000;
    iterations = 2000;
    optimizer = "adamw";
    beta2 = 0.99;
    weight_decay = 0.1;
    schedule = "cosine";
    min_lr = 1e-4;
    warmup_iterations = 100;
    clip_norm = 1;
    checkpoint_every = "250i";
  }
};

void declare(mn::Options& options, Settings& given) {
  options.add("train", given.train, "DIR", "tokens to train on, made by mnshard tokens; default: gpt/train");
  options.add("val", given.val, "DIR", "tokens to validate on; default: gpt/val");
  options.add("vocabulary", given.vocabulary, "FILE", "default: vocabulary.json beside the folder of --train");
  options.add("layers", given.network.layers, "layers of attention and perceptron", 1, 1000);
  options.add("heads", given.network.heads, "heads of each attention", 1, 1000);
  options.add("width", given.network.width, "width of the embeddings, a multiple of the heads", 1, 1 << 20);
  options.add("dropout", given.network.dropout, "part of the activations that training leaves out", 0, 0.99);
  options.add_flag("recompute", given.recompute,
                   "keep no activations of the layers: less memory, a third more computing");
  options.add("report-every", given.report_every, "updates between two reports", 1);
  options.add("generate", given.generate, "TEXT", "continue TEXT with the weights of --initmodel, and train nothing");
  options.add("length", given.sampling.length, "tokens that --generate makes", 1, 1 << 30);
  options.add("temperature", given.sampling.temperature,
              "temperature of --generate: below 1 likely tokens become likelier; 0: always the likeliest", 0, 100);
  options.add("top-k", given.sampling.top_k, "likeliest tokens that --generate draws from; 0: from all", 0);
  options.add_check([&given] {
    if (given.network.width % given.network.heads != 0) throw mn::UsageError("--width must be a multiple of --heads");
    if (!given.generate.empty() && given.initmodel.empty()) {
      throw mn::UsageError("--generate needs weights: --initmodel OUT/model.safetensors");
    }
  });
  const auto generates = [&given] { return !given.generate.empty(); };
  const std::string without_generate = "without --generate";
  options.add_conditions({{"length", generates, without_generate},
                          {"temperature", generates, without_generate},
                          {"top-k", generates, without_generate}});
}

/// Mean loss over the targets, in nats; reports bits per byte of the text that they stand for.
torch::Tensor loss_of(Gpt& model, const mn::Batch& batch, const torch::Tensor& bytes_of, bool recompute,
                      mn::Summary& report) {
  const auto input = batch.data.slice(1, 0, -1);
  const auto target = batch.data.slice(1, 1).flatten();
  const auto logits = model.forward(input, recompute).flatten(0, 1).to(torch::kFloat);
  const auto loss = torch::nn::functional::cross_entropy(logits, target);
  const auto bytes = bytes_of.index_select(0, target).sum().to(torch::kDouble);
  const auto bits = loss.detach().to(torch::kDouble) * (static_cast<double>(target.numel()) / std::numbers::ln2);
  report.add("bits_per_byte", bits / bytes, bytes);
  return loss;
}

int write_text(const Settings& given, const GptData& data, Gpt& model, const mn::Communicator& comm) {
  if (comm.rank() != 0) return 0;
  model.eval();
  const auto tokens =
      mn::models::generate(model, data.vocabulary.encode(given.generate), data.context, given.sampling, comm.device());
  std::cout << given.generate << data.vocabulary.decode(tokens) << std::endl;
  return 0;
}

mn::app::Training make_training(Settings& given, const std::shared_ptr<mn::Communicator>& comm) {
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
                  mn::Summary& report) { return loss_of(*model, batch, bytes_of, recompute, report); },
      .rate = given.lr > 0 ? given.lr : 0.003,
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
  Settings given;
  mn::Options options("usage: jobs/gpt [options]\nTrains a language model as GPT-2, or continues a text with one.");
  declare(options, given);
  return mn::app::run_training(argc, argv, options, given, [&](const std::shared_ptr<mn::Communicator>& comm) {
    return make_training(given, comm);
  });
}

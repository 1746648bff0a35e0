#include "gpt/options.hpp"

#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn::jobs {
namespace {

/// True if a file of weights tells the sizes of the network.
bool has_file(const GptSettings& given) { return !given.initmodel.empty() || !given.evaluate.empty(); }

std::vector<Options::Condition> conditions_of(const GptSettings& given) {
  const auto generates = [&given] { return given.generates; };
  const auto learns = [&given] { return !given.generates; };
  const auto updates = [&given] { return given.evaluate.empty(); };
  const std::string generating = "with --generate, which trains nothing";
  std::vector<Options::Condition> conditions = app::training_conditions(learns, generating);
  for (const char* name : {"batchsize", "evaluate", "find-lr", "one-batch"}) {
    conditions.push_back({name, learns, generating});
  }
  for (const char* name : {"length", "temperature", "top-k"}) {
    conditions.push_back({name, generates, "without --generate"});
  }
  for (const char* name : {"dropout", "recompute", "report-every"}) {
    conditions.push_back({name, learns, generating});
    conditions.push_back({name, updates, "with --evaluate, which trains nothing"});
  }
  const auto may_have_experts = [&given] { return given.network.experts > 0 || has_file(given); };
  for (const char* name : {"experts-per-token", "capacity-factor"}) {
    conditions.push_back({name, may_have_experts, "without --experts"});
  }
  conditions.push_back(
      {"report-every", [&given] { return given.find_lr.empty(); }, "with --find-lr, which reports each update"});
  return conditions;
}

}  // namespace

void declare_options(Options& options, GptSettings& given) {
  options.add("train", given.train, "DIR", "tokens to train on, made by mnshard tokens; default: gpt/train");
  options.add("val", given.val, "DIR", "tokens to validate on; SET=DIR,SET=DIR: several sets; default: gpt/val");
  options.add("vocabulary", given.vocabulary, "FILE",
              "vocabulary of mnshard tokens; default: vocabulary.json beside the folder of --train");
  options.add("layers", given.network.layers, "layers of attention and perceptron", 1, 1000);
  options.add("heads", given.network.heads, "heads of each attention", 1, 1000);
  options.add("width", given.network.width, "width of the embeddings, a multiple of the heads", 1, 1 << 20);
  options.add("experts", given.network.experts,
              "experts in place of each perceptron, divided among the ranks; 0: perceptrons", 0, 1 << 16);
  options.add("experts-per-token", given.network.experts_per_token, "experts that each token uses", 1, 1 << 16);
  options.add("capacity-factor", given.network.capacity_factor,
              "limit of the tokens of an expert in training, as a multiple of the mean; 0: no limit", 0, 1e6);
  options.add("dropout", given.network.dropout, "part of the activations that training drops", 0, 0.99);
  options.add_flag("recompute", given.recompute,
                   "keep no activations of the layers: less memory, a third more computing");
  app::exclude_cuda_graph(
      options, given, "recompute", [&given] { return given.recompute; },
      "the second computation sets the GPU's random numbers");
  options.add("report-every", given.report_every, "updates between two reports", 1);
  options.add("generate", given.generate, "TEXT", "continue TEXT with the weights of --initmodel, and train nothing");
  options.add("length", given.sampling.length, "number of tokens that --generate adds", 1, 1 << 30);
  options.add("temperature", given.sampling.temperature,
              "temperature of --generate: below 1 likely tokens become likelier; 0: always the likeliest", 0, 100);
  options.add("top-k", given.sampling.top_k, "number of likeliest tokens from which --generate draws; 0: all", 0);
  options.add_check([&given, &options] {
    given.generates = options.is_given("generate");
    if (!has_file(given) && given.network.width % given.network.heads != 0) {
      throw UsageError("--width must be a multiple of --heads");
    }
    if (given.generates && given.initmodel.empty()) {
      throw UsageError("--generate needs weights: --initmodel OUT/model.safetensors");
    }
  });
  options.add_conditions(conditions_of(given));
}

Metadata metadata_of(const models::GptOptions& network) {
  Metadata metadata = {{"layers", std::to_string(network.layers)},
                       {"heads", std::to_string(network.heads)},
                       {"width", std::to_string(network.width)},
                       {"context", std::to_string(network.context)}};
  if (network.experts > 0) {
    metadata["experts"] = std::to_string(network.experts);
    metadata["experts-per-token"] = std::to_string(network.experts_per_token);
  }
  return metadata;
}

void take_network(const Metadata& metadata, const std::string& file, const Options& options,
                  models::GptOptions& network) {
  const auto take = [&](const std::string& name, std::int64_t& size) {
    const auto found = metadata.find(name);
    if (found == metadata.end()) return;
    const std::int64_t there = parse_number<std::int64_t>(found->second).value_or(0);
    if (there <= 0 || there > 1 << 20)
      throw DataError(file + ": " + name + " of its network is \"" + found->second + "\"", true);
    if (options.is_given(name) && size != there) {
      throw UsageError("--" + name + " " + std::to_string(size) + ": " + name + " of the network in " + file + " is " +
                       found->second + "; leave --" + name + " out");
    }
    size = there;
  };
  take("layers", network.layers);
  take("heads", network.heads);
  take("width", network.width);
  take("context", network.context);
  take("experts", network.experts);
  take("experts-per-token", network.experts_per_token);
}

void check_experts(const GptSettings& given) {
  const models::GptOptions& network = given.network;
  if (network.experts == 0) return;
  if (network.experts_per_token > network.experts) throw UsageError("--experts-per-token must be at most --experts");
  const char* const excluded = given.recompute                          ? "--recompute"
                               : given.shard != "none"                  ? "--shard"
                               : given.precision == app::kNarrowWeights ? "--precision bf16-parameters"
                                                                        : nullptr;
  if (excluded != nullptr) throw UsageError(std::string("--experts and ") + excluded + " exclude each other");
}

double base_rate(const GptSettings& given) { return given.lr > 0 ? given.lr : 0.003; }

}  // namespace mn::jobs

#include "gpt/options.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <mn/app/compile.hpp>
#include <mn/core/error.hpp>

namespace mn::jobs {
namespace {

/// True if a file of weights tells the sizes of the network.
bool has_file(const GptSettings& given) { return !given.initmodel.empty() || !given.evaluate.empty(); }

/// The conditions of options that describe a part of some networks. A file may have that part.
std::vector<Options::Condition> network_conditions(const GptSettings& given) {
  const auto is_llama = [&given] { return given.network.type == "llama" || has_file(given); };
  const auto is_gpt = [&given] { return given.network.type == "gpt2" || has_file(given); };
  const auto has_experts = [&given] { return given.network.sizes.experts > 0 || has_file(given); };
  return {{"kv-heads", is_llama, "without --network llama"},
          {"hidden", is_llama, "without --network llama"},
          {"experts", is_gpt, "with --network llama"},
          {"experts-per-token", has_experts, "without --experts"},
          {"capacity-factor", has_experts, "without --experts"}};
}

std::vector<Options::Condition> conditions_of(const GptSettings& given) {
  const auto generates = [&given] { return given.generates; };
  const auto learns = [&given] { return !given.generates; };
  const auto updates = [&given] { return given.evaluate.empty(); };
  const std::string generating = "with --generate, which trains nothing";
  std::vector<Options::Condition> conditions = app::training_conditions(learns, generating);
  for (const char* name : {"batchsize", "evaluate", "find-lr", "one-batch"}) {
    conditions.push_back({name, learns, generating});
  }
  for (auto& condition : network_conditions(given)) conditions.push_back(std::move(condition));
  conditions.push_back({"save-hub", learns, generating});
  conditions.push_back(
      {"save-hub", [&given] { return given.find_lr.empty(); }, "with --find-lr, which keeps no weights"});
  for (const char* name : {"length", "temperature", "top-k", "top-p"}) {
    conditions.push_back({name, generates, "without --generate or --prompts"});
  }
  conditions.push_back({"iterations", [&given] { return given.tokens == 0; }, "with --tokens"});
  for (const char* name : {"compile", "dropout", "recompute", "report-every", "tokens", "label-smoothing", "z-loss"}) {
    conditions.push_back({name, learns, generating});
    conditions.push_back({name, updates, "with --evaluate, which trains nothing"});
  }
  conditions.push_back(
      {"report-every", [&given] { return given.find_lr.empty(); }, "with --find-lr, which reports each update"});
  return conditions;
}

void check_sizes(const GptSettings& given) {
  if (given.network.sizes.width % given.network.sizes.heads != 0)
    throw UsageError("--width must be a multiple of --heads");
  try {
    static_cast<void>(network_of_options(given.network));
  } catch (const ArgumentError& error) {
    throw UsageError(std::string("--network ") + given.network.type + ": " + error.what());
  }
}

void check_folders(const GptSettings& given) {
  const auto is_same = [](const std::string& a, const std::string& b) {
    return !a.empty() && std::filesystem::weakly_canonical(a) == std::filesystem::weakly_canonical(b);
  };
  for (const std::string& folder : {given.save_hub, given.initmodel}) {
    if (is_same(folder, given.out))
      throw UsageError("--out " + given.out + " is also a folder of the hub, whose files it would replace");
  }
}

void check_lora(const GptSettings& given) {
  if (!given.lora.is_on()) return;
  const char* const option = given.lora.adapter.empty() ? "--lora" : "--adapter";
  if (!has_file(given) && given.resume.empty())
    throw UsageError(std::string(option) + " needs the weights of a network: --initmodel FILE");
  if (!given.save_hub.empty() && !given.lora.merge)
    throw UsageError(std::string("--save-hub with ") + option + " needs --merge-lora: OUT has the adapters alone");
  if (given.lora.merge && parse_shard(given.shard) == Shard::kParameters)
    throw UsageError("--merge-lora and --shard parameters exclude each other");
  const char* const excluded = given.initmodel_partial                  ? "--initmodel-partial"
                               : given.precision == app::kNarrowWeights ? "--precision bf16-parameters"
                                                                        : nullptr;
  if (excluded != nullptr) throw UsageError(std::string(option) + " and " + excluded + " exclude each other");
}

}  // namespace

void declare_options(Options& options, GptSettings& given) {
  options.add("train", given.train, "DIR", "tokens to train on, made by mnshard tokens; default: gpt/train");
  options.add("val", given.val, "DIR", "tokens to validate on; SET=DIR,SET=DIR: several sets; default: gpt/val");
  options.add("vocabulary", given.vocabulary, "FILE",
              "vocabulary of mnshard tokens; default: vocabulary.json beside the folder of --train");
  options.add("network", given.network.type, "gpt2|llama", "network to train from random weights", {"gpt2", "llama"});
  options.add("layers", given.network.sizes.layers, "layers of attention and perceptron", 1, 1000);
  options.add("heads", given.network.sizes.heads, "heads of each attention", 1, 1000);
  options.add("width", given.network.sizes.width, "width of the embeddings, a multiple of the heads", 1, 1 << 20);
  options.add("kv-heads", given.network.kv_heads, "heads of a llama's keys and values; 0: as many as --heads", 0, 1000);
  options.add("hidden", given.network.hidden, "width inside a llama's perceptron; 0: 8/3 of --width, rounded up to 32",
              0, 1 << 20);
  options.add("experts", given.network.sizes.experts,
              "experts in place of each perceptron, divided among the ranks; 0: perceptrons", 0, 1 << 16);
  options.add("experts-per-token", given.network.sizes.experts_per_token, "experts that each token uses", 1, 1 << 16);
  options.add("capacity-factor", given.network.sizes.capacity_factor,
              "limit of the tokens of an expert in training, as a multiple of the mean; 0: no limit", 0, 1e6);
  options.add("dropout", given.network.sizes.dropout, "part of the activations that training drops", 0, 0.99);
  options.add_flag("recompute", given.loss.recompute,
                   "keep no activations of the layers: less memory, a third more computing");
  app::exclude_cuda_graph(
      options, given, "recompute", [&given] { return given.loss.recompute; },
      "the second computation sets the GPU's random numbers");
  options.add("tokens", given.tokens,
              "tokens of all ranks after which training ends, in place of --iterations; 0: --iterations decides", 0);
  options.add("label-smoothing", given.loss.label_smoothing,
              "part of the target's probability that training divides among all tokens", 0, 1);
  options.add("z-loss", given.loss.z_loss, "factor of the square of log(sum of exp(logits)) in training's loss", 0,
              1e6);
  options.add("report-every", given.report_every, "updates between two reports", 1);
  options.add("save-hub", given.save_hub, "DIR",
              "write the weights that were trained or evaluated to DIR, as Hugging Face's transformers loads them");
  app::declare_compile(options, given.compile);
  declare_lora(options, given.lora);
  options.add("generate", given.generate, "TEXT", "continue TEXT with the weights of --initmodel, and train nothing");
  options.add("prompts", given.prompts, "FILE", "continue each line of FILE, as --generate does");
  options.add("length", given.sampling.length, "number of tokens that --generate adds", 1, 1 << 30);
  options.add("temperature", given.sampling.temperature,
              "temperature of --generate: below 1 likely tokens become likelier; 0: always the likeliest", 0, 100);
  options.add("top-k", given.sampling.top_k, "number of likeliest tokens from which --generate draws; 0: all", 0);
  options.add("top-p", given.sampling.top_p,
              "--generate draws from the likeliest tokens whose probabilities sum to this number", 0, 1);
  options.add_check([&given, &options] {
    given.generates = options.is_given("generate") || !given.prompts.empty();
    if (options.is_given("generate") && !given.prompts.empty())
      throw UsageError("--generate and --prompts exclude each other");
    if (!has_file(given)) check_sizes(given);
    check_folders(given);
    check_lora(given);
    if (!options.is_given("min-lr")) given.min_lr = std::min(given.min_lr, base_rate(given) / 10);
    if (given.generates && given.initmodel.empty()) {
      throw UsageError("--generate needs weights: --initmodel OUT/model.safetensors");
    }
  });
  options.add_conditions(conditions_of(given));
}

void check_experts(const GptSettings& given, const models::NetworkOptions& network) {
  const auto* gpt = with_experts(network);
  if (gpt == nullptr) return;
  if (gpt->experts_per_token > gpt->experts) throw UsageError("--experts-per-token must be at most --experts");
  const char* const excluded = given.loss.recompute                     ? "--recompute"
                               : given.shard != "none"                  ? "--shard"
                               : !given.save_hub.empty()                ? "--save-hub"
                               : given.lora.is_on()                     ? "--lora"
                               : given.precision == app::kNarrowWeights ? "--precision bf16-parameters"
                                                                        : nullptr;
  if (excluded != nullptr) throw UsageError(std::string("--experts and ") + excluded + " exclude each other");
}

double base_rate(const GptSettings& given) { return given.lr > 0 ? given.lr : 0.003; }

}  // namespace mn::jobs

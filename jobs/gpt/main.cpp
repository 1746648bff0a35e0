/// jobs/gpt: trains a language model like GPT-2 or Llama, on tokens from `mnshard tokens`.
#include <iostream>

#include <torch/torch.h>

#include <mn/app/app.hpp>
#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/file.hpp>
#include <mn/models/create_language_model.hpp>
#include <mn/models/hub_config.hpp>

#include "gpt/compilation.hpp"
#include "gpt/data.hpp"
#include "gpt/generation.hpp"
#include "gpt/hub.hpp"
#include "gpt/loss.hpp"
#include "gpt/network.hpp"
#include "gpt/options.hpp"
#include "gpt/speed.hpp"

namespace {

using mn::jobs::GptData;
using mn::jobs::GptSettings;
using mn::models::LanguageModel;

/// The network to train, to evaluate or to generate with.
struct Chosen {
  mn::models::NetworkOptions network;
  std::string file;                        // the weights of this network; empty: random weights
  std::optional<mn::jobs::HubFolder> hub;  // --initmodel or --evaluate, if it is a folder of the hub
  [[nodiscard]] bool is_of_hub() const { return hub && file == hub->path; }
  [[nodiscard]] mn::FileLayout layout() const { return hub ? mn::jobs::hub_layout(network) : mn::FileLayout(); }
};

/// Collective. The newest checkpoint that tells its network; empty: there is none.
std::string newest_checkpoint(const std::string& out, mn::Communicator& comm) {
  nlohmann::json paths = nlohmann::json::array();
  const auto find = [&] {
    for (const auto& path : mn::find_checkpoints(out)) paths.push_back(path.string());
  };
  mn::on_root<mn::DataError>(comm, find, true);
  for (const std::string path : comm.bcast_obj(paths)) {
    try {
      static_cast<void>(mn::load_metadata(path, comm));
      return path;
    } catch (const mn::DataError&) {  // damaged: Trainer::resume(), which tries the one before, too, warns of it
    }
  }
  return "";
}

/// Collective. The weights that hold the network's type and sizes; empty: the options describe the network.
std::string weights_of(const GptSettings& given, mn::Communicator& comm) {
  if (!given.evaluate.empty()) return given.evaluate;
  if (!given.initmodel.empty() && !given.initmodel_partial) return given.initmodel;
  return given.resume == "auto" ? newest_checkpoint(given.out, comm) : given.resume;
}

/// Collective. Sets the options in `given` that the weights fix.
Chosen choose_network(GptSettings& given, const mn::Options& options, mn::Communicator& comm) {
  Chosen chosen = {.network = {}, .file = weights_of(given, comm), .hub = {}};
  const std::string& loaded = given.evaluate.empty() ? given.initmodel : given.evaluate;
  if (!loaded.empty()) chosen.hub = mn::jobs::open_hub(loaded, comm);
  if (chosen.file.empty()) {
    chosen.network = mn::jobs::network_of_options(given.network);
  } else if (chosen.is_of_hub()) {
    chosen.network = chosen.hub->network;
  } else {
    chosen.network = mn::jobs::network_of_metadata(mn::load_metadata(chosen.file, comm), chosen.file, given.network);
  }
  if (!chosen.file.empty()) mn::jobs::take_network(given.network, chosen.network, options, chosen.file);
  std::visit([&](auto& network) { network.dropout = given.network.sizes.dropout; }, chosen.network);
  return chosen;
}

/// A network and its adapters.
struct Network {
  std::shared_ptr<LanguageModel> model;
  std::shared_ptr<mn::jobs::Adapters> adapters;  // null: none

  /// Collective.
  Network(const GptSettings& given, const Chosen& chosen, const std::shared_ptr<mn::Communicator>& comm) {
    if (given.lora.is_on()) adapters = std::make_shared<mn::jobs::Adapters>(given.lora, chosen.network, comm);
    model = mn::app::make_model(given, comm, [&] {
      auto made = mn::models::create_language_model(chosen.network);
      if (adapters) adapters->add_to(*made);
      return made;
    });
  }
  /// For Training::load.
  [[nodiscard]] std::function<void(const std::string&)> loading(const GptSettings& given, const Chosen& chosen) const {
    if (!adapters) return {};
    return [*this, layout = chosen.layout(), evaluates = !given.evaluate.empty()](const std::string& file) {
      adapters->load(file, *model, layout, evaluates);
    };
  }
};

mn::app::Training make_generation(GptSettings& given, Chosen chosen, const std::shared_ptr<mn::Communicator>& comm) {
  const std::int64_t context = mn::jobs::context_of(chosen.network);
  if (context == 0) {
    throw mn::DataError(given.initmodel + " does not tell the context of its network: jobs/gpt writes files that do",
                        true);
  }
  const auto vocabulary = mn::jobs::open_vocabulary(given.train, given.vocabulary, *comm);
  mn::jobs::take_samples(chosen.network, vocabulary.size(), context, chosen.file);
  given.sampling.vocabulary = vocabulary.size();
  const Network network(given, chosen, comm);
  const bool has_experts = mn::jobs::with_experts(chosen.network) != nullptr;
  const auto prompts = mn::jobs::prompts_of(given.generate, given.prompts, vocabulary, *comm);
  const auto write = [=, &given, model = network.model] {
    mn::jobs::print_texts(*model, prompts, vocabulary, context, given.sampling, has_experts, *comm);
    return 0;
  };
  return {.model = network.model, .layout = chosen.layout(), .load = network.loading(given, chosen), .instead = write};
}

/// The number of bytes of each token.
at::Tensor bytes_of(const mn::Vocabulary& vocabulary, torch::Device device) {
  std::vector<float> lengths;
  for (std::int32_t i = 0; i < vocabulary.size(); ++i) lengths.push_back(vocabulary.text(i).size());
  return torch::tensor(lengths).to(device);
}

/// For Training::finish.
std::function<void()> finishing(const GptSettings& given, const Network& network) {
  if (!network.adapters) return {};
  return [=, &given] {
    if (given.evaluate.empty()) network.adapters->save(given.out, *network.model, given.initmodel);
    if (given.lora.merge) mn::models::merge_lora(*network.model);
  };
}

/// Collective. For Training::save. A folder that cannot be made is an error before the training.
std::function<void()> saving(const GptSettings& given, const Chosen& chosen, const Network& network,
                             const std::shared_ptr<GptData>& data, const std::shared_ptr<mn::Communicator>& comm) {
  if (given.save_hub.empty()) return {};
  mn::on_root<mn::DataError>(
      *comm, [&] { static_cast<void>(mn::make_folders(given.save_hub)); }, true);
  return [=, &given] {
    const auto source = chosen.is_of_hub() ? chosen.hub : std::nullopt;
    mn::jobs::save_hub(given.save_hub, *network.model, chosen.network, source, data->vocabulary.end_of_text(), *comm);
  };
}

/// A network whose FLOPs depend on more than its sizes has no peak: mfu would be wrong.
mn::jobs::LanguageFacts facts_of(const GptSettings& given, const mn::models::NetworkOptions& options,
                                 const Network& network, std::int64_t context, const mn::Communicator& comm) {
  const bool is_usual = !network.adapters && mn::jobs::with_experts(options) == nullptr;
  const std::string gpu = comm.device().type == mn::DeviceType::kCuda ? mn::jobs::gpu_name() : "";
  return {.context = context,
          .ranks = comm.size(),
          .has_plain_loss = given.loss.is_plain(),
          .flop_per_token = mn::jobs::flop_per_token(*network.model, options),
          .gpu = gpu,
          .peak_flop = is_usual ? mn::jobs::peak_flop_per_second(gpu, given.precision) : std::nullopt};
}

std::string text_of(const mn::jobs::LanguageFacts& facts) {
  mn::OutText text;
  text << "FLOP of a token: " << facts.flop_per_token;
  if (facts.peak_flop) text << "; peak of a GPU: " << *facts.peak_flop << " FLOP/s (" << facts.gpu << ")";
  return text.str();
}

mn::app::Training make_training(GptSettings& given, const mn::Options& options,
                                const std::shared_ptr<mn::Communicator>& comm) {
  given.sampling.seed = static_cast<std::uint64_t>(given.seed);
  given.network.sizes.ranks = comm;
  Chosen chosen = choose_network(given, options, *comm);
  mn::jobs::check_experts(given, chosen.network);
  if (given.generates) return make_generation(given, std::move(chosen), comm);
  const auto data =
      std::make_shared<GptData>(mn::jobs::open_gpt(given.train, given.val, given.vocabulary, given, comm));
  mn::jobs::take_samples(chosen.network, data->vocabulary.size(), data->context, chosen.file);
  mn::jobs::check_compilation(given, chosen.network, data->is_packed);
  const Network network(given, chosen, comm);
  if (!given.compile.empty()) {
    mn::jobs::compile_network(*network.model, given, chosen.network, data->context, comm);
  }
  const std::int64_t update = given.batchsize * given.accumulate * comm->size() * data->context;  // tokens
  if (given.tokens > 0) given.iterations = (given.tokens - 1) / update + 1;
  const auto facts = facts_of(given, chosen.network, network, data->context, *comm);
  const auto bytes = bytes_of(data->vocabulary, comm->device());
  return {
      .model = network.model,
      .train = data->train,
      .validations = data->val,
      .loss = [=, model = network.model, how = given.loss](
                  const mn::Batch& batch,
                  mn::Summary& report) { return mn::jobs::loss_of(*model, batch, bytes, how, report); },
      .rate = mn::jobs::base_rate(given),
      .report_every = mn::Interval(static_cast<double>(given.report_every), "iteration"),
      .metric = "bits_per_byte",
      .unit = "tokens",
      .units_per_sample = static_cast<double>(data->context),
      .derive = mn::jobs::language_values(facts),
      .banner = {"Num tokens of the vocabulary: " + std::to_string(data->vocabulary.size()),
                 "Num training tokens: " + std::to_string(data->train->dataset_size() * data->context),
                 "Context: " + std::to_string(data->context), text_of(facts)},
      .metadata = mn::jobs::metadata_of(chosen.network, data->vocabulary.size()),
      .layout = chosen.layout(),
      .load = network.loading(given, chosen),
      .finish = finishing(given, network),
      .save = saving(given, chosen, network, data, comm),
      .writes_model = !network.adapters || given.lora.merge,
  };
}

}  // namespace

int main(int argc, char** argv) {
  GptSettings given;
  mn::Options options(
      "usage: jobs/gpt [options]\nTrains a language model as GPT-2 or Llama, or continues a text with one.");
  mn::jobs::declare_options(options, given);
  return mn::app::run_training(argc, argv, options, given, [&](const std::shared_ptr<mn::Communicator>& comm) {
    return make_training(given, options, comm);
  });
}

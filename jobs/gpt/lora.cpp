#include "gpt/lora.hpp"

#include <algorithm>
#include <cmath>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/checkpoint/weights_files.hpp>
#include <mn/checkpoint/weights_reader.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>

namespace mn::jobs {
namespace {

namespace fs = std::filesystem;
using models::LoraOptions;
using nlohmann::json;

constexpr const char* kForm = "adapter_config.json";
constexpr std::int64_t kMaxRank = 1 << 16;
constexpr const char* kAdapters = "adapter_model.safetensors";

/// The form "RANK" or "RANK:PATTERN,…". No layers: the default of the network.
LoraOptions parse_form(const LoraSettings& given) {
  const auto colon = std::min(given.form.find(':'), given.form.size());
  const auto rank = parse_number<std::int64_t>(given.form.substr(0, colon));
  LoraOptions form = {.rank = rank.value_or(0), .dropout = given.dropout, .layers = {}};
  if (colon < given.form.size()) {
    for (const std::string_view layer : split(std::string_view(given.form).substr(colon + 1), ','))
      form.layers.emplace_back(layer);
  }
  if (form.rank < 1 || form.rank > kMaxRank || std::ranges::count(form.layers, "") > 0)
    throw UsageError("--lora " + given.form + ": write RANK or RANK:LAYER,LAYER, such as 8:q_proj,v_proj");
  form.scale = given.alpha / static_cast<double>(form.rank);
  return form;
}

/// Throws DataError if the adapters are of a kind that is not implemented.
void check_supported(const json& config, const std::string& source) {
  const auto require = [&](const char* name, const json& wanted) {
    const json found = config.value(name, wanted);
    if (found == wanted || found.is_null() || (found.empty() && found.is_structured())) return;
    throw DataError(source + ": " + name + " is " + json_text(found) + ", and only " + json_text(wanted) +
                    " is implemented");
  };
  if (!config.is_object()) throw DataError(source + " is not a JSON object");
  const json init = config.value("init_lora_weights", json(true));
  if (!init.is_boolean() && init != "gaussian" && init != "orthogonal") require("init_lora_weights", true);
  require("peft_type", "LORA");
  require("bias", "none");
  for (const char* name : {"use_dora", "lora_bias"}) require(name, false);
  for (const char* name : {"rank_pattern", "alpha_pattern"}) require(name, json::object());
  for (const char* name : {"modules_to_save", "layers_to_transform", "exclude_modules", "target_parameters",
                           "alora_invocation_tokens", "corda_config", "eva_config", "loftq_config"})
    require(name, json());
}

LoraOptions form_of(const json& config, const std::string& source) {
  check_supported(config, source);
  try {
    const auto rank = config.at("r").get<std::int64_t>();
    const auto alpha = config.at("lora_alpha").get<double>(), width = static_cast<double>(rank);
    LoraOptions form = {.rank = rank,
                        .scale = alpha / (config.value("use_rslora", false) ? std::sqrt(width) : width),
                        .dropout = config.value("lora_dropout", 0.0),
                        .layers = config.at("target_modules").get<std::vector<std::string>>()};
    const bool is_whole = config.at("r").is_number_integer();
    if (is_whole && rank >= 1 && rank <= kMaxRank && form.dropout >= 0 && form.dropout < 1) return form;
  } catch (const json::exception&) {  // reported below
  }
  throw DataError(source +
                  ": its settings r, lora_alpha, lora_dropout and target_modules must be a rank, a number, a " +
                  "fraction and a list of layers");
}

/// The names of the tensors that no file of the network has.
std::vector<std::string> tensors_of(const std::vector<std::string>& layers) {
  std::vector<std::string> names;
  for (const std::string& layer : layers) names.insert(names.end(), {layer + ".lora_A", layer + ".lora_B"});
  return names;
}

/// Collective: true if `file` is a checkpoint of a training with adapters.
bool holds_adapters(const std::string& file, Communicator& comm) {
  json found = false;
  const auto look = [&] {
    const auto is_adapter = [](const auto& each) { return each.first.ends_with(".lora_A.weight"); };
    found = std::ranges::any_of(open_weights(file, kWeightAverage).tensors, is_adapter);
  };
  on_root<DataError>(comm, look, true);
  return comm.bcast_obj(found).get<bool>();
}

}  // namespace

void declare_lora(Options& options, LoraSettings& given) {
  options.add(
      "lora", given.form, "RANK[:LAYER,…]",
      "train low-rank adapters of the layers whose names, or ends of names, match a LAYER, and no other weights; "
      "default: q_proj,v_proj of a llama, c_attn of a gpt2");
  options.add("lora-alpha", given.alpha, "the adapters' products are multiplied by this number / RANK", 0);
  options.add("lora-dropout", given.dropout, "part of the adapters' inputs that training drops", 0, 0.99);
  options.add("adapter", given.adapter, "DIR",
              "folder with adapters of --initmodel or --evaluate, as --lora or Hugging Face's PEFT writes them: train, "
              "evaluate or generate with them");
  options.add_flag("merge-lora", given.merge,
                   "add the adapters to the weights at the end: for OUT/model.safetensors and --save-hub");
  const auto is_new = [&given] { return !given.form.empty(); };
  options.add_conditions(
      {{"lora-alpha", is_new, "without --lora"},
       {"lora-dropout", is_new, "without --lora"},
       {"merge-lora", [&given] { return given.is_on(); }, "without --lora or --adapter"},
       {"adapter", [&given] { return given.form.empty(); }, "with --lora, which makes new adapters"}});
  options.add_check([&given] {
    if (!given.form.empty()) static_cast<void>(parse_form(given));
  });
}

Adapters::Adapters(const LoraSettings& given, const models::NetworkOptions& network,
                   const std::shared_ptr<Communicator>& comm)
    : comm_(comm), folder_(given.adapter), is_gpt_(std::holds_alternative<models::GptOptions>(network)) {
  if (folder_.empty()) {
    form_ = parse_form(given);
    if (form_.layers.empty())
      form_.layers = is_gpt_ ? std::vector<std::string>{"c_attn"} : std::vector<std::string>{"q_proj", "v_proj"};
    return;
  }
  const std::string file = fs::path(folder_) / kForm;
  json config;
  const auto read = [&] {
    config = parse_json(read_file(file), file);
    static_cast<void>(form_of(config, file));
  };
  on_root<DataError>(*comm_, read, true);
  form_ = form_of(comm_->bcast_obj(config), file);
}

void Adapters::add_to(models::LanguageModel& model) {
  try {
    layers_ = models::add_lora(model, form_);
    for (const std::string& each : form_.layers) {
      const auto is_match = [&each](const std::string& name) { return models::matches_layer(each, name); };
      const bool is_used = std::ranges::any_of(layers_, is_match);
      if (!is_used && folder_.empty())
        throw UsageError("--lora: no linear layer of the network matches \"" + each + "\"");
    }
  } catch (const ArgumentError& error) {
    throw UsageError((folder_.empty() ? "--lora: " : "--adapter " + folder_ + ": ") + error.what());
  }
}

void Adapters::load(const std::string& file, models::LanguageModel& model, const FileLayout& layout,
                    bool must_exist) const {
  const bool has_adapters = folder_.empty() && holds_adapters(file, *comm_);
  if (must_exist && folder_.empty() && !has_adapters)
    throw UsageError("--lora makes new adapters: with --evaluate, give --adapter DIR, or a checkpoint with adapters");
  load_model(file, model, *comm_, has_adapters ? std::vector<std::string>() : tensors_of(layers_), layout);
  if (!folder_.empty()) load_model(fs::path(folder_) / kAdapters, *models::lora_of(model), *comm_);
}

void Adapters::save(const fs::path& folder, const models::LanguageModel& model, const std::string& base) const {
  const FileLayout layout = {.prefix = is_gpt_ ? "base_model.model.transformer." : "base_model.model."};
  save_model(folder / kAdapters, *models::lora_of(model), *comm_, {}, kBytesPerFile, layout);
  const json config = {{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"base_model_name_or_path", base.empty() ? json() : json(base)},
                       {"r", form_.rank},
                       {"lora_alpha", form_.scale * static_cast<double>(form_.rank)},
                       {"lora_dropout", form_.dropout},
                       {"target_modules", layers_},
                       {"fan_in_fan_out", is_gpt_},
                       {"bias", "none"},
                       {"inference_mode", true}};
  on_root<DataError>(
      *comm_, [&] { write_file(folder / kForm, json_text(config, 2) + "\n"); }, true);
}

}  // namespace mn::jobs

#include "gpt/hub.hpp"

#include <array>

#include <ATen/core/Tensor.h>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/tensor/scalar_type.hpp>

namespace mn::jobs {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kConfig = "config.json";
constexpr std::array kCopied = {"added_tokens.json", "chat_template.jinja",     "generation_config.json",
                                "merges.txt",        "special_tokens_map.json", "tokenizer.json",
                                "tokenizer.model",   "tokenizer_config.json",   "vocab.json"};

void copy_tokenizer(const fs::path& from, const fs::path& to) {
  if (fs::equivalent(from, to)) return;
  for (const char* name : kCopied) {
    if (fs::exists(from / name)) fs::copy_file(from / name, to / name, fs::copy_options::overwrite_existing);
  }
}

}  // namespace

std::optional<HubFolder> open_hub(const std::string& path, Communicator& comm) {
  const fs::path file = fs::path(path) / kConfig;
  json config;
  const auto read = [&] {
    const fs::path folder = fs::absolute(path).parent_path();
    if (fs::is_regular_file(path) && fs::exists(folder / kConfig))
      throw DataError(path + " is a file of a hub's folder: give the folder, " + folder.string());
    if (!fs::exists(file)) return;
    config = parse_json(read_file(file), file.string());
    static_cast<void>(models::network_of_config(config, file.string()));
  };
  on_root<DataError>(comm, read, true);
  config = comm.bcast_obj(config);
  if (config.is_null()) return std::nullopt;
  return HubFolder{path, config, models::network_of_config(config, file.string())};
}

FileLayout hub_layout(const models::NetworkOptions& network) {
  if (const auto* llama = std::get_if<models::LlamaOptions>(&network)) {
    FileLayout layout = {.ignored = {".rotary_emb.inv_freq"}};
    if (llama->tied) layout.ignored.emplace_back("lm_head.weight");
    return layout;
  }
  return {.prefix = "transformer.",
          .transposed = {".c_attn.weight", ".c_proj.weight", ".c_fc.weight"},
          .ignored = {".attn.bias", ".attn.masked_bias", "lm_head.weight"}};
}

void save_hub(const fs::path& folder, const models::LanguageModel& model, const models::NetworkOptions& network,
              const std::optional<HubFolder>& source, std::optional<std::int32_t> end_of_text, Communicator& comm) {
  save_model(folder / "model.safetensors", model, comm, {}, kBytesPerFile, hub_layout(network));
  json config = source ? source->config : models::config_of(network);
  if (!source && end_of_text) config["bos_token_id"] = config["eos_token_id"] = *end_of_text;
  config[config.contains("dtype") ? "dtype" : "torch_dtype"] =
      name_of(*dtype_of(model.parameters().front().scalar_type()));
  const auto write = [&] {
    if (source) copy_tokenizer(source->path, folder);
    write_file(folder / kConfig, json_text(config, 2) + "\n");
  };
  on_root<DataError>(comm, write, true);
}

}  // namespace mn::jobs

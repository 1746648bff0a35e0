/// Folders of models as Hugging Face's hub has them: config.json beside model.safetensors, or beside its index.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <mn/core/json.hpp>

#include <mn/checkpoint/file_layout.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/models/hub_config.hpp>
#include <mn/models/language_model.hpp>

namespace mn::jobs {

/// A folder of the hub.
struct HubFolder {
  std::filesystem::path path;
  nlohmann::json config;
  models::NetworkOptions network;
};

/// Collective: reads the folder's config.json; no value if `path` is not a folder with a config.json. Throws the same
/// DataError on all ranks if the file or the network is not supported.
[[nodiscard]] std::optional<HubFolder> open_hub(const std::string& path, Communicator& comm);

/// How the hub's files of a network differ from the module.
[[nodiscard]] FileLayout hub_layout(const models::NetworkOptions& network);

/// Collective: writes weights and config.json to `folder`, so that transformers' from_pretrained() loads them. With
/// `source`, the settings and the files of the tokenizer are those of that folder. Otherwise the number of
/// `end_of_text`, if there is one, is in the config.json.
void save_hub(const std::filesystem::path& folder, const models::LanguageModel& model,
              const models::NetworkOptions& network, const std::optional<HubFolder>& source,
              std::optional<std::int32_t> end_of_text, Communicator& comm);

}  // namespace mn::jobs

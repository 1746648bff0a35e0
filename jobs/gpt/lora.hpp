/// Low-rank adapters of jobs/gpt: options, and folders of adapters as Hugging Face's PEFT has them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <mn/checkpoint/file_layout.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/options.hpp>
#include <mn/models/hub_config.hpp>
#include <mn/models/language_model.hpp>
#include <mn/models/lora.hpp>

namespace mn::jobs {

/// The options of the command line.
struct LoraSettings {
  std::string form;     ///< "RANK" or "RANK:PATTERN,…"; empty: no new adapters
  double alpha = 16;    ///< the adapters' products are multiplied by alpha / rank
  double dropout = 0;   ///< LoraOptions::dropout
  std::string adapter;  ///< folder with adapters to begin with; empty: none
  bool merge = false;   ///< write weights with the adapters in them

  [[nodiscard]] bool is_on() const noexcept { return !form.empty() || !adapter.empty(); }
};

void declare_lora(Options& options, LoraSettings& given);

/// Adapters of a model, and the folder that they come from.
class Adapters {
 public:
  /// Collective: reads the form of the adapters in --adapter. Throws DataError on all ranks.
  Adapters(const LoraSettings& given, const models::NetworkOptions& network, const std::shared_ptr<Communicator>& comm);

  /// Adds the adapters to a new network.
  void add_to(models::LanguageModel& model);
  /// Collective: loads the network's weights from `file`, and the adapters from --adapter, or from `file` if it is a
  /// checkpoint that has them. If `must_exist` and there are no adapters to load, throws UsageError on all ranks.
  void load(const std::string& file, models::LanguageModel& model, const FileLayout& layout, bool must_exist) const;
  /// Collective: writes adapter_model.safetensors and adapter_config.json, which PEFT loads onto the network `base`;
  /// empty: unknown.
  void save(const std::filesystem::path& folder, const models::LanguageModel& model, const std::string& base) const;

 private:
  std::shared_ptr<Communicator> comm_;
  std::string folder_;  // empty: new adapters
  bool is_gpt_;
  models::LoraOptions form_;
  std::vector<std::string> layers_;  // names of the adapted layers
};

}  // namespace mn::jobs

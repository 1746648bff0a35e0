#include <mn/checkpoint/format/checkpoint_file.hpp>
#include <mn/checkpoint/format/checkpoint_info.hpp>
#include <mn/checkpoint/format/saved_checkpoint.hpp>
#include <mn/core/json.hpp>

namespace mn {
namespace {

CheckpointInfo info_of(const std::filesystem::path& path, const nlohmann::json& about, std::int64_t ranks) {
  return read_json(path.string(), [&] {
    return CheckpointInfo{whole_number<std::int64_t>(about.at("iteration")),
                          whole_number<std::int64_t>(about.at("epoch")), about.at("epoch_detail").get<double>(), ranks};
  });
}

}  // namespace

CheckpointInfo read_checkpoint_info(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) {
    SavedCheckpoint checkpoint(path);
    checkpoint.check();
    return info_of(path, checkpoint.manifest().about, static_cast<std::int64_t>(checkpoint.ranks()));
  }
  const CheckpointFile file(path);
  file.check();
  return info_of(path, file.about(), file.ranks());
}

}  // namespace mn

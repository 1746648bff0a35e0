#include <mn/core/json.hpp>
#include <mn/train/checkpoint/checkpoint.hpp>
#include <mn/train/checkpoint/checkpoint_info.hpp>

namespace mn {

CheckpointInfo read_checkpoint_info(const std::filesystem::path& path) {
  const Checkpoint checkpoint = read_checkpoint(path);
  return read_json(path.string(), [&] {
    const nlohmann::json& about = checkpoint.about;
    return CheckpointInfo{about.at("iteration").get<std::int64_t>(), about.at("epoch").get<std::int64_t>(),
                          about.at("epoch_detail").get<double>(), static_cast<std::int64_t>(checkpoint.ranks.size())};
  });
}

}  // namespace mn

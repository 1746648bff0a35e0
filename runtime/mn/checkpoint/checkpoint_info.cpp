#include <mn/checkpoint/checkpoint_file.hpp>
#include <mn/checkpoint/checkpoint_info.hpp>
#include <mn/core/json.hpp>

namespace mn {

CheckpointInfo read_checkpoint_info(const std::filesystem::path& path) {
  const CheckpointFile file(path);
  file.check();
  return read_json(path.string(), [&] {
    const nlohmann::json& about = file.about();
    return CheckpointInfo{whole_number<std::int64_t>(about.at("iteration")),
                          whole_number<std::int64_t>(about.at("epoch")), about.at("epoch_detail").get<double>(),
                          file.ranks()};
  });
}

}  // namespace mn

#include "exports.hpp"

namespace mn::launcher {

void add_exports(Variables& variables, const Placement& here, const Master& master, const std::string& device,
                 int threads) {
  const auto set = [&](const char* name, int value) { variables.set(name, std::to_string(value)); };
  set("RANK", here.rank);
  set("WORLD_SIZE", here.size);
  set("LOCAL_RANK", here.intra_rank);
  set("LOCAL_WORLD_SIZE", here.intra_size);
  set("GROUP_RANK", here.inter_rank);
  set("GROUP_WORLD_SIZE", here.inter_size);
  if (!master.address.empty()) variables.set("MASTER_ADDR", master.address);
  set("MASTER_PORT", master.port);
  set("MN_RANK", here.rank);
  set("MN_SIZE", here.size);
  set("MN_INTRA_RANK", here.intra_rank);
  set("MN_INTRA_SIZE", here.intra_size);
  set("MN_INTER_RANK", here.inter_rank);
  set("MN_INTER_SIZE", here.inter_size);
  variables.set("MN_DEVICE", device);
  if (!variables.has("OMP_NUM_THREADS")) set("OMP_NUM_THREADS", threads);
}

}  // namespace mn::launcher

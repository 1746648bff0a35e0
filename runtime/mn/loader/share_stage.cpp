#include <mn/loader/share_stage.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/core/net/interfaces.hpp>
#include <mn/core/net/key.hpp>

namespace mn {
namespace {

using nlohmann::json;

/// Returns the result of open(). After a DataError, logs a warning and returns no value.
template <class Open>
std::optional<data::StageFile> attempt(const std::filesystem::path& folder, const Open& open) {
  try {
    return open();
  } catch (const DataError& error) {
    log_warning("shards are not copied to " + folder.string() + ": " + error.what());
    return std::nullopt;
  }
}

/// Listens on a free port. If no port is free, logs a warning and returns an empty Fd.
Fd listen_for_nodes() {
  std::string why = "no TCP port is free";
  try {
    if (Fd listener = listen_on_port(0)) return listener;
  } catch (const CommError& error) {
    why = error.what();
  }
  log_warning("other nodes get no copies from this one: " + why);
  return {};
}

/// Collects the addresses at which each node offers its copies, from the messages `all` of all ranks.
data::StageNodes nodes_of(const std::vector<json>& all, const Communicator& comm) {
  data::StageNodes nodes{.key = key_of_hex(all.front().at("key").get<std::string>()).value(),
                         .self = static_cast<std::uint32_t>(comm.inter_rank())};
  nodes.servers.resize(comm.inter_size());
  for (const json& each : all) {
    const auto port = whole_number<std::uint16_t>(each.at("port"));
    if (port == 0) continue;
    for (const json& address : each.at("addresses")) {
      nodes.servers[whole_number<std::size_t>(each.at("node"))].push_back({address.get<std::string>(), port});
    }
  }
  return nodes;
}

}  // namespace

std::shared_ptr<const data::StageNode> share_stage_node(const std::filesystem::path& folder, Communicator& comm) {
  const bool is_first = comm.intra_rank() == 0;
  std::optional<data::StageFile> file;
  Fd listener;
  if (is_first) file = attempt(folder, [&] { return data::StageFile::make(folder); });
  if (file && comm.inter_size() > 1) listener = listen_for_nodes();
  const std::vector<json> all =
      comm.allgather_obj(json{{"node", comm.inter_rank()},
                              {"file", file ? json(file->handle()) : json()},
                              {"port", listener ? port_of(listener) : 0},
                              {"addresses", listener ? json(local_addresses()) : json::array()},
                              {"key", comm.rank() == 0 ? to_hex(random_key()) : ""}});
  for (const json& each : all) {
    if (is_first || each.at("node") != comm.inter_rank() || each.at("file").is_null()) continue;
    file = attempt(folder, [&] { return data::StageFile::open(each.at("file").get<std::string>()); });
  }
  comm.barrier();  // the maker of the nameless file holds it open until all ranks have it
  if (!file) return nullptr;
  auto node = std::make_shared<data::StageNode>(std::move(*file), comm.intra_size());
  node->nodes = nodes_of(all, comm);
  node->listener = std::move(listener);
  return node;
}

}  // namespace mn

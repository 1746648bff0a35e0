#include "bind/machine.hpp"

#include <algorithm>
#include <utility>

#include <mn/core/json.hpp>
#include <mn/core/text.hpp>

namespace mn::launcher {

int package_near(const std::vector<Core>& cores, const CpuSet& near) {
  // `cores` may come from a message of another process, so a core may have no CPU.
  const auto is_near = [&](const Core& core) { return !core.cpus.empty() && near.contains(*core.cpus.begin()); };
  const auto found = std::ranges::find_if(cores, is_near);
  return found == cores.end() ? -1 : found->package;
}

std::string normal_bus_id(std::string bus_id) {
  const std::size_t colon = bus_id.find(':');
  if (colon != std::string::npos && colon > 4) bus_id.erase(0, colon - 4);
  return to_lower(std::move(bus_id));
}

void to_json(nlohmann::json& json, const Machine& machine) {
  json = {{"cores", nlohmann::json::array()},
          {"gpus", nlohmann::json::array()},
          {"nics", nlohmann::json::array()},
          {"numa_nodes", machine.numa_nodes}};
  for (const auto& core : machine.cores) json["cores"].push_back({format_cpus(core.cpus), core.package});
  for (const auto& gpu : machine.gpus) json["gpus"].push_back({gpu.bus_id, format_cpus(gpu.near), gpu.nic});
  for (const auto& nic : machine.nics) json["nics"].push_back({nic.name, format_cpus(nic.near)});
}

void from_json(const nlohmann::json& json, Machine& machine) {
  machine = {};
  machine.numa_nodes = whole_number<int>(json.at("numa_nodes"));
  for (const auto& core : json.at("cores")) {
    machine.cores.push_back({parse_cpus(core.at(0).get<std::string>()), whole_number<int>(core.at(1))});
  }
  for (const auto& gpu : json.at("gpus")) {
    machine.gpus.push_back(
        {gpu.at(0).get<std::string>(), parse_cpus(gpu.at(1).get<std::string>()), gpu.at(2).get<std::string>()});
  }
  for (const auto& nic : json.at("nics")) {
    machine.nics.push_back({nic.at(0).get<std::string>(), parse_cpus(nic.at(1).get<std::string>())});
  }
}

}  // namespace mn::launcher

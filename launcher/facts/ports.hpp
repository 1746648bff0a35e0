/// The network ports of this node, as the kernel describes them in sysfs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <mn/core/fields.hpp>

namespace mn::launcher {

/// A port of a network card. A fact that the card does not report has no value.
struct PortFacts {
  std::string name;                    ///< mlx5_0/1 for InfiniBand and RoCE, eth0 for Ethernet
  std::optional<std::string> state;    ///< ACTIVE, or the kernel's word: DOWN, INIT, down
  std::optional<std::string> rate;     ///< "400 Gb/sec (4X NDR)", "100000 Mb/s"
  std::optional<std::int64_t> downs;   ///< losses of the link since the counters began
  std::optional<std::int64_t> errors;  ///< damaged symbols and packets since the counters began
  bool is_full = false;                ///< a counter has reached its end and stopped
  MN_FIELDS(name, state, rate, downs, errors, is_full);
};

inline constexpr const char* kActivePort = "ACTIVE";

[[nodiscard]] inline bool is_fabric_port(const std::string& name) { return name.find('/') != std::string::npos; }

/// The ports of InfiniBand and RoCE, then of Ethernet hardware, each sorted by name, from sys below `root`.
[[nodiscard]] std::vector<PortFacts> read_ports(const std::filesystem::path& root = "/");

/// The first active port of an InfiniBand or RoCE device, from 1. 1 if none is active; no value without the device.
[[nodiscard]] std::optional<int> first_active_port(const std::string& device, const std::filesystem::path& root = "/");

}  // namespace mn::launcher

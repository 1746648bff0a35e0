/// The ports of this node's network cards, as the kernel describes them in sysfs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mn::launcher {

/// What this card does not say has no value.
struct PortFacts {
  std::string name;                    ///< mlx5_0/1 for InfiniBand and RoCE, eth0 for Ethernet
  std::optional<std::string> state;    ///< ACTIVE, or what the kernel says instead: DOWN, INIT, down
  std::optional<std::string> rate;     ///< "400 Gb/sec (4X NDR)", "100000 Mb/s"
  std::optional<std::int64_t> downs;   ///< how often the link was lost since the counters began
  std::optional<std::int64_t> errors;  ///< damaged symbols and packets since then
  bool is_full = false;                ///< one of these counters has reached its end, and counts no more
  friend bool operator==(const PortFacts&, const PortFacts&) = default;
};

inline constexpr const char* kActivePort = "ACTIVE";

/// Whether a port of that name belongs to an InfiniBand or RoCE device.
[[nodiscard]] inline bool is_fabric_port(const std::string& name) { return name.find('/') != std::string::npos; }

/// Ports of InfiniBand and RoCE devices, then Ethernet cards that are hardware, each by name. Reads sysfs below `root`.
[[nodiscard]] std::vector<PortFacts> read_ports(const std::filesystem::path& root = "/");

/// The first active port of an InfiniBand or RoCE device, counted from 1; port 1 if none is; no value if there is no
/// such device.
[[nodiscard]] std::optional<int> first_active_port(const std::string& device, const std::filesystem::path& root = "/");

}  // namespace mn::launcher

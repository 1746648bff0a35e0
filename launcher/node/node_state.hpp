/// What --node-check looks at: the facts that jobs compare, and facts about this node alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "facts/facts.hpp"
#include "facts/surroundings.hpp"

namespace mn::launcher {

/// A GPU or a network card on the PCI bus, as the kernel lists it.
struct PciDevice {
  std::string bus_id;  ///< 0000:3b:00.0
  bool is_gpu = false;
  bool on_bus = true;  ///< false: it has fallen off the bus (its configuration reads as ones)
  std::optional<std::int64_t> width;
  std::optional<std::int64_t> max_width;  ///< lanes that the device could have
};

struct Mount {
  std::string path;
  std::string fault;  ///< the system's reason, or that it does not answer; empty: it answers
};

struct NodeState {
  NodeFacts facts;
  std::vector<PciDevice> devices;
  std::vector<std::string> mounted;  ///< paths of all file systems
  std::vector<Mount> mounts;         ///< network file systems
  std::optional<std::int64_t> memory_mib;
  std::optional<std::int64_t> swap_used_mib;
  bool clock_is_synchronized = true;
  bool driver_answers = true;
};

/// Reads /proc, /sys and /dev below here.root. Asks the GPUs' driver and the network file systems at the same time, and
/// takes no longer than `patience`.
[[nodiscard]] NodeState read_node(const Surroundings& here, std::chrono::milliseconds patience);

}  // namespace mn::launcher

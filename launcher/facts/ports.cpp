// Source: the kernel's ABI/stable/sysfs-class-infiniband and ABI/testing/sysfs-class-net.
#include "facts/ports.hpp"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include <mn/core/small_files.hpp>

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFabricClass = "sys/class/infiniband";

std::vector<std::string> sorted_entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

/// The sum of the numbers in the files; no value if no file has a number.
std::optional<std::int64_t> sum_of(const fs::path& folder, std::initializer_list<const char*> names) {
  std::optional<std::int64_t> sum;
  for (const char* name : names) {
    if (const auto number = leading_number(first_line(folder / name))) sum = sum.value_or(0) + *number;
  }
  return sum;
}

/// "4: ACTIVE" in the file gives "ACTIVE".
std::optional<std::string> state_of(const fs::path& port) {
  const auto line = first_line(port / "state");
  const std::size_t text = line ? line->find_first_not_of("0123456789: ") : std::string::npos;
  return text == std::string::npos ? std::nullopt : std::optional(line->substr(text));
}

/// Whether a counter is full: InfiniBand's counters have 8 or 16 bits and stop at their greatest value.
bool has_full_counter(const fs::path& counters) {
  constexpr std::int64_t kFull8 = 0xff;
  constexpr std::int64_t kFull16 = 0xffff;
  return leading_number(first_line(counters / "link_downed")) == kFull8 ||
         leading_number(first_line(counters / "symbol_error")) == kFull16 ||
         leading_number(first_line(counters / "port_rcv_errors")) == kFull16;
}

PortFacts describe_fabric_port(const std::string& name, const fs::path& port) {
  return {.name = name,
          .state = state_of(port),
          .rate = first_line(port / "rate"),
          .downs = leading_number(first_line(port / "counters/link_downed")),
          .errors = sum_of(port / "counters", {"symbol_error", "port_rcv_errors", "local_link_integrity_errors",
                                               "excessive_buffer_overrun_errors"}),
          .is_full = has_full_counter(port / "counters")};
}

PortFacts describe_ethernet(const std::string& name, const fs::path& card) {
  const auto state = first_line(card / "operstate");
  const auto speed = leading_number(first_line(card / "speed"));  // -1 or an error if the link is down
  return {.name = name,
          .state = state == "up" ? kActivePort : state,
          .rate = speed && *speed > 0 ? std::optional(std::to_string(*speed) + " Mb/s") : std::nullopt,
          .downs = leading_number(first_line(card / "carrier_down_count")),
          .errors = sum_of(card / "statistics", {"rx_crc_errors", "rx_frame_errors"})};
}

/// False for bridges, tunnels and virtual cards (no device), and for IP over InfiniBand (another type).
bool is_ethernet_hardware(const fs::path& card) {
  constexpr std::int64_t kEthernet = 1;  // ARPHRD_ETHER
  std::error_code error;
  return fs::exists(card / "device", error) && leading_number(first_line(card / "type")) == kEthernet;
}

}  // namespace

std::vector<PortFacts> read_ports(const fs::path& root) {
  std::vector<PortFacts> ports;
  for (const auto& device : sorted_entries(root / kFabricClass)) {
    const fs::path folder = root / kFabricClass / device / "ports";
    for (const auto& port : sorted_entries(folder)) {
      ports.push_back(describe_fabric_port(device + "/" + port, folder / port));
    }
  }
  const fs::path cards = root / "sys/class/net";
  for (const auto& name : sorted_entries(cards)) {
    if (is_ethernet_hardware(cards / name)) ports.push_back(describe_ethernet(name, cards / name));
  }
  return ports;
}

std::optional<int> first_active_port(const std::string& device, const fs::path& root) {
  const fs::path folder = root / kFabricClass / device / "ports";
  std::error_code error;
  if (device.empty() || !fs::is_directory(folder, error)) return std::nullopt;
  for (const auto& port : sorted_entries(folder)) {
    if (state_of(folder / port) == kActivePort) return std::atoi(port.c_str());
  }
  // No port is active; the first may be active once the program starts.
  return 1;
}

}  // namespace mn::launcher

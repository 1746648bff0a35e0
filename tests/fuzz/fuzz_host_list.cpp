// Host lists, and the other short texts in which a launcher tells who runs where.
#include <cstdint>
#include <string>

#include <mn/core/error.hpp>
#include <mn/core/host_list.hpp>

#include "launcher/bind/cpu_set.hpp"
#include "launcher/place/ask_pmi_server.hpp"
#include "launcher/place/slurm.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto names = mn::expand_host_list(text);
    if (names.size() < 1000) (void)mn::expand_host_list(mn::compress_host_list(names));
  } catch (const mn::ArgumentError&) {
  }
  (void)mn::launcher::tasks_on_node(mn::launcher::Variables({{"SLURM_GTIDS", text}}));
  (void)mn::launcher::nodes_of_mapping(text, 1000);
  if (mn::launcher::CpuSet cpus = mn::launcher::parse_cpus(text);
      mn::launcher::parse_cpus(mn::launcher::format_cpus(cpus)) != cpus)
    __builtin_trap();
  return 0;
}

#include <mn/tensor/libtorch_version.hpp>

#include <cstdio>
#include <cstdlib>

#include <ATen/Version.h>

#include <mn/core/exit_codes.hpp>

namespace mn {
namespace {

std::string_view minor_version(std::string_view version) {
  const auto dot = version.find('.');
  return version.substr(0, dot == std::string_view::npos ? dot : version.find('.', dot + 1));
}

}  // namespace

std::string loaded_libtorch() {
  constexpr std::string_view kName = "TORCH_VERSION=";
  const std::string config = at::show_config();
  const auto found = config.find(kName);
  if (found == std::string::npos) return "none";
  const auto begin = found + kName.size();
  return config.substr(begin, config.find_first_of(", \n", begin) - begin);
}

std::string libtorch_fault(std::string_view program, std::string_view own, std::string_view loaded) {
  if (minor_version(program) != minor_version(own)) {
    return "the program was compiled with libtorch " + std::string(program) + ", but its mn with libtorch " +
           std::string(own) + ": compile both with one libtorch (Torch_ROOT)";
  }
  if (minor_version(own) == minor_version(loaded)) return "";
  return "the program was compiled with libtorch " + std::string(own) + ", but has loaded libtorch " +
         std::string(loaded) + ": take the other out of LD_LIBRARY_PATH and LD_PRELOAD, or compile with it";
}

bool require_libtorch(std::string_view program) {
  const std::string fault = libtorch_fault(program, TORCH_VERSION, loaded_libtorch());
  if (fault.empty()) return true;
  std::fprintf(stderr, "mn: error %s\n", fault.c_str());
  std::_Exit(kExitCannotRun);
}

}  // namespace mn

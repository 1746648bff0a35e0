// config.json of any bytes: a network whose own config.json gives the same network again, or a DataError of one line.
#include <cstdint>
#include <string_view>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/models/hub_config.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto config = mn::parse_json({reinterpret_cast<const char*>(data), size}, "input");
    const auto written = mn::models::config_of(mn::models::network_of_config(config, "input"));
    if (mn::models::config_of(mn::models::network_of_config(written, "its copy")) != written) __builtin_trap();
  } catch (const mn::DataError& error) {
    const std::string_view what = error.what();
    if (!what.starts_with("input") || what.find('\n') != std::string_view::npos) __builtin_trap();
  }
  return 0;
}

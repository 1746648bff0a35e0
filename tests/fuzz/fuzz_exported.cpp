// An exported model of any bytes: its program is read whole, or DataError of one line says why not. The first byte says
// what the others are: the archive, or a JSON record of an archive that is otherwise sound.
#include <cstdint>
#include <string>

#include <mn/core/error.hpp>
#include <mn/nn/exported/archive.hpp>
#include <mn/nn/exported/program.hpp>

#include "tests/nn/exported_files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const mn::test::Records sound = mn::test::records_of("mlp");
  if (size == 0) return 0;
  std::string file(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 != 0) {
    mn::test::Records records = sound;
    records[data[0] % 3 == 1 ? "models/model.json" : "data/weights/model_weights_config.json"] = file;
    file = mn::test::archive_of(records);
  }
  try {
    (void)mn::exported::parse_program(mn::exported::Archive(file, "input"));
  } catch (const mn::DataError& error) {
    const std::string_view what = error.what();
    if (what.find('\n') != what.npos || !what.starts_with("input")) __builtin_trap();
  }
  return 0;
}

/// Reads an exported program from its archive.
#pragma once

#include <mn/nn/exported/archive.hpp>
#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// Throws DataError of one line that begins with the archive's source and names the damaged or unknown part. Pickled
/// records are never read.
[[nodiscard]] Program parse_program(const Archive& archive);

}  // namespace mn::exported

/// Names of tensors in other libraries' files of weights.
#pragma once

#include <string>

#include <mn/checkpoint/file_layout.hpp>

namespace mn::jobs {

/// How torchvision's files of weights differ from mn's network `arch`. Files of timm, and files of mn itself, have mn's
/// names, and are left as they are. Empty for networks that have torchvision's names.
[[nodiscard]] FileLayout weights_layout(const std::string& arch);

}  // namespace mn::jobs

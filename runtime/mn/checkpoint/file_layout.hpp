/// Describes files of weights whose tensors differ from the module's.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace mn {

/// How the tensors in files of another program differ from the module's tensors. The texts in the lists are ends of
/// names, such as ".c_attn.weight".
struct FileLayout {
  std::string prefix = {};                   ///< save_model() writes this text before each name
  std::vector<std::string> transposed = {};  ///< files hold these matrices transposed
  std::vector<std::string> ignored = {};     ///< load_model() ignores these tensors of files

  /// True if files hold the matrix `name` transposed.
  [[nodiscard]] bool transposes(std::string_view name) const { return has_end(transposed, name); }
  /// True if load_model() ignores the tensor `name` of a file.
  [[nodiscard]] bool ignores(std::string_view name) const { return has_end(ignored, name); }

 private:
  [[nodiscard]] static bool has_end(const std::vector<std::string>& ends, std::string_view name) {
    return std::ranges::any_of(ends, [&](const std::string& end) { return name.ends_with(end); });
  }
};

}  // namespace mn

/// Describes files of weights whose tensors differ from the module's.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mn {

/// How the tensors in files of another program differ from the module's tensors. The texts in the lists are ends of
/// names, such as ".c_attn.weight". load_model() renames tensors first, so the other lists have the module's names.
struct FileLayout {
  std::string prefix = {};                   ///< save_model() writes this text before each name
  std::vector<std::string> transposed = {};  ///< files hold these matrices transposed
  std::vector<std::string> ignored = {};     ///< load_model() ignores these tensors of files
  std::vector<std::string> flattened = {};   ///< the module has all elements of these tensors in one dimension
  /// Parts of names in files, and what load_model() puts in their place, one pair after the other. A part that does not
  /// begin with a dot counts only at the beginning of a name or after a dot.
  std::vector<std::pair<std::string, std::string>> renamed = {};

  /// True if files hold the matrix `name` transposed.
  [[nodiscard]] bool transposes(std::string_view name) const { return has_end(transposed, name); }
  /// True if load_model() ignores the tensor `name` of a file.
  [[nodiscard]] bool ignores(std::string_view name) const { return has_end(ignored, name); }
  /// True if the module has the tensor `name` in one dimension.
  [[nodiscard]] bool flattens(std::string_view name) const { return has_end(flattened, name); }
  /// The module's name of the tensor that files call `name`.
  [[nodiscard]] std::string module_name(std::string name) const {
    for (const auto& [part, replacement] : renamed) {
      std::size_t at = name.find(part);
      const auto is_inside = [&] { return at != std::string::npos && at > 0 && part[0] != '.' && name[at - 1] != '.'; };
      while (is_inside()) at = name.find(part, at + 1);
      if (at != std::string::npos) name.replace(at, part.size(), replacement);
    }
    return name;
  }

 private:
  [[nodiscard]] static bool has_end(const std::vector<std::string>& ends, std::string_view name) {
    return std::ranges::any_of(ends, [&](const std::string& end) { return name.ends_with(end); });
  }
};

}  // namespace mn

/// The folder of the program's results, and a marker in it: nodes with the marker see the folder of rank 0.
#pragma once

#include <filesystem>
#include <string>

#include "facts/surroundings.hpp"

namespace mn::launcher {

/// The value of --out among the program's arguments, else the current folder; if it does not exist, its nearest
/// existing parent.
[[nodiscard]] std::filesystem::path output_folder(const Surroundings& here);

/// An empty file in a folder while the object lives, as a sign for the nodes that see the folder. One object at a time.
/// A signal that ends the process removes the file, too. The next start in the folder removes markers of killed starts
/// that are over an hour old.
class Marker {
 public:
  Marker(const std::filesystem::path& folder, const std::string& name);
  ~Marker();
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;
  /// The name of the file; empty if it could not be made.
  [[nodiscard]] std::string name() const { return path_.filename().string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace mn::launcher

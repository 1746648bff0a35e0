// Stands in for a network plugin of NCCL: creates the file of MN_TEST_LOADED when a process loads the plugin.
#include <cstdlib>
#include <fstream>

namespace {

struct Loaded {
  Loaded() {
    if (const char* file = std::getenv("MN_TEST_LOADED")) std::ofstream(file) << "loaded";
  }
} loaded;

}  // namespace

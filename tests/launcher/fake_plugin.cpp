// Stands in for a network plugin of NCCL: creates the file that MN_TEST_LOADED names when a process loads it.
#include <cstdlib>
#include <fstream>

namespace {

struct Loaded {
  Loaded() {
    if (const char* file = std::getenv("MN_TEST_LOADED")) std::ofstream(file) << "loaded";
  }
} loaded;

}  // namespace

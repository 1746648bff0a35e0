// Stands in for a network plugin of NCCL. Whoever loads it leaves the file that MN_TEST_LOADED names.
#include <cstdlib>
#include <fstream>

namespace {

struct Loaded {
  Loaded() {
    if (const char* file = std::getenv("MN_TEST_LOADED")) std::ofstream(file) << "loaded";
  }
} loaded;

}  // namespace

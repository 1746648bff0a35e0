// kept_memory kept|returned: exits with 0 if malloc keeps a freed block of 16 MiB, or returns the block to the system.
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <string_view>

#include <unistd.h>

#include <mn/job/job.hpp>

int main(int argc, char** argv) {
  const mn::Job job(argc, argv);
  constexpr std::size_t kBytes = 16 << 20;
  void* const block = std::malloc(kBytes);
  std::memset(block, 1, kBytes);
  void* const end = sbrk(0);  // end of the heap; a block with its own mapping lies elsewhere
  const bool in_heap = std::less<>()(block, end);
  std::free(block);
  const bool kept = in_heap && sbrk(0) == end;
  std::cout << (kept ? "kept" : "returned") << "\n";
  return std::string_view(argc > 1 ? argv[1] : "") == (kept ? "kept" : "returned") ? 0 : 1;
}

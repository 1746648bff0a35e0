#include "tests/support/test_device/memory.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include <c10/util/Exception.h>

#include "tests/support/stand_in_gpu/machine.hpp"
#include "tests/support/stand_in_gpu/memory.hpp"
#include "tests/support/test_device/streams.hpp"
#include "tests/support/test_device/test_device.hpp"

namespace mn::test_device {
namespace {

constexpr int kFreed = 0xee;

/// Memory that tensors had, and may have again: cudaFree would wait for the device.
struct Block {
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  c10::Stream stream;                // whose order it is reused in
  std::vector<c10::Stream> used_by;  // others, by record_stream()
  bool is_of_graph = false;          // launches write it
};

struct Waiting {
  Block* block;
  std::vector<stand_in::Mark> until;
};

struct Heap {
  using Kind = std::tuple<c10::Stream, std::size_t>;
  struct Less {
    bool operator()(const Kind& a, const Kind& b) const { return key(a) < key(b); }
    static std::pair<std::uint64_t, std::size_t> key(const Kind& kind) {
      return {std::get<0>(kind).hash(), std::get<1>(kind)};
    }
  };
  std::mutex mutex;
  std::map<Kind, std::vector<Block*>, Less> free;
  std::vector<Waiting> waiting;
  MemoryUse use;
  int captures = 0;
};

Heap& heap() {
  static auto& all = *new Heap;
  return all;
}

/// What still reads the memory sees that it is gone (invariant 2).
void overwrite(const Block& block) {
  auto* const memory = static_cast<std::byte*>(reach(block.memory, block.bytes));
  enqueue(block.stream, "freeing memory", [memory, bytes = block.bytes] { std::memset(memory, kFreed, bytes); });
}

void make_free(Heap& all, Block* block) {
  overwrite(*block);
  all.free[{block->stream, block->bytes}].push_back(block);
}

void free_what_is_done(Heap& all) {
  std::vector<Block*> done;
  {
    const auto lock = stand_in::machine().lock();
    std::erase_if(all.waiting, [&](const Waiting& each) {
      if (!stand_in::is_done(each.until)) return false;
      done.push_back(each.block);
      return true;
    });
  }
  for (Block* block : done) make_free(all, block);
}

stand_in::Mark mark_of(const c10::Stream& stream) {
  const auto lock = stand_in::machine().lock();
  return stand_in::machine().enqueue(stand_in::machine().find(handle_of(stream), stream.device_index()), [] {});
}

void release(void* context) {
  auto* const block = static_cast<Block*>(context);
  Heap& all = heap();
  const std::lock_guard lock(all.mutex);
  all.use.bytes -= block->bytes;
  if (block->is_of_graph) return;
  if (block->used_by.empty()) return make_free(all, block);
  Waiting waiting{block, {}};
  for (const c10::Stream& stream : block->used_by) waiting.until.push_back(mark_of(stream));
  block->used_by.clear();
  all.waiting.push_back(std::move(waiting));
}

bool is_captured(const c10::Stream& stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(handle_of(stream), &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

Block* take_for_graph(std::size_t bytes, const c10::Stream& stream) {
  const OnDevice scope(stream.device());
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
  return new Block{static_cast<std::byte*>(memory), bytes, stream, {}, true};
}

Block* take(Heap& all, std::size_t bytes, const c10::Stream& stream) {
  if (all.captures > 0 && is_captured(stream)) return take_for_graph(bytes, stream);
  free_what_is_done(all);
  auto& blocks = all.free[{stream, bytes}];
  if (!blocks.empty()) {
    Block* const block = blocks.back();
    blocks.pop_back();
    return block;
  }
  const OnDevice scope(stream.device());
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return new Block{static_cast<std::byte*>(memory), bytes, stream, {}, false};
}

class DeviceAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device device = current_device();
    if (bytes == 0) return {nullptr, device};
    Heap& all = heap();
    const std::lock_guard lock(all.mutex);
    Block* const block = take(all, bytes, current_stream(device));
    all.use.bytes += bytes;
    all.use.peak_bytes = std::max(all.use.peak_bytes, all.use.bytes);
    return {block->memory, block, &release, device};
  }
  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) const override {
    TORCH_CHECK(false, "the test device does not clone storages");
  }
};

/// Kept for the next allocation of the size: cudaFreeHost would wait. Copies that are under way hold their tensor.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    auto* const block = new Pinned{nullptr, bytes};
    const std::lock_guard lock(mutex_);
    auto& kept = kept_[bytes];
    if (kept.empty()) {
      if (bytes > 0) check(cudaMallocHost(&block->memory, bytes), "cudaMallocHost");
    } else {
      block->memory = kept.back();
      kept.pop_back();
    }
    return {block->memory, block, &give_back, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  struct Pinned {
    void* memory;
    std::size_t bytes;
  };
  static void give_back(void* context);

  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> kept_;
};

PinnedAllocator& pinned() {
  static auto& all = *new PinnedAllocator;
  return all;
}

void PinnedAllocator::give_back(void* context) {
  auto* const block = static_cast<Pinned*>(context);
  {
    const std::lock_guard lock(pinned().mutex_);
    pinned().kept_[block->bytes].push_back(block->memory);
  }
  delete block;
}

}  // namespace

c10::Allocator& device_allocator() {
  static auto& all = *new DeviceAllocator;
  return all;
}

c10::Allocator& pinned_allocator() { return pinned(); }

bool is_pinned(const void* memory) {
  const stand_in::MemoryKind kind = stand_in::memory().kind_of(memory);
  return kind == stand_in::MemoryKind::kPinned || kind == stand_in::MemoryKind::kRegistered;
}

void* reach(const void* memory, std::size_t bytes) {
  void* const here = stand_in::memory().alias(memory, bytes);
  TORCH_CHECK(here != nullptr, "the test device has no such memory");
  return here;
}

void record_use(const c10::DataPtr& memory, const c10::Stream& stream) {
  if (memory.get_deleter() != &release) return;  // not a tensor's own
  auto* const block = static_cast<Block*>(memory.get_context());
  const std::lock_guard lock(heap().mutex);
  if (stream != block->stream && std::ranges::find(block->used_by, stream) == block->used_by.end()) {
    block->used_by.push_back(stream);
  }
}

GraphMemory::GraphMemory() {
  const std::lock_guard lock(heap().mutex);
  ++heap().captures;
}

GraphMemory::~GraphMemory() {
  const std::lock_guard lock(heap().mutex);
  --heap().captures;
}

MemoryUse memory_use() {
  const std::lock_guard lock(heap().mutex);
  return heap().use;
}

void reset_peak() {
  const std::lock_guard lock(heap().mutex);
  heap().use.peak_bytes = heap().use.bytes;
}

}  // namespace mn::test_device

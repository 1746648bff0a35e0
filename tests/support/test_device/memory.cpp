#include "tests/support/test_device/memory.hpp"

#include <algorithm>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/StreamGuard.h>

#include "tests/support/stand_in_gpu/memory.hpp"
#include "tests/support/test_device/streams.hpp"

namespace mn::test_device {
namespace {

constexpr std::size_t kRounding = 512;  // as in libtorch
constexpr int kFreed = 0xff;            // NaN in every float type

struct Block {
  void* memory = nullptr;
  std::size_t bytes = 0;  // rounded
  bool is_pinned = false;
  c10::Stream stream;  // that it was allocated on
  std::vector<c10::Stream> used_on;
};

/// Blocks that are free, of both kinds.
class Cache {
 public:
  Block* take(std::size_t bytes, bool is_pinned, c10::Stream stream) {
    const std::size_t rounded = (bytes + kRounding - 1) / kRounding * kRounding;
    const std::lock_guard lock(mutex_);
    give_back_what_is_done();
    auto& free = free_[{is_pinned, is_pinned ? c10::Stream(c10::Stream::DEFAULT, stream.device()) : stream, rounded}];
    Block* block = nullptr;
    if (free.empty()) {
      block = new Block{allocate(rounded, is_pinned), rounded, is_pinned, stream, {}};
    } else {
      block = free.back();
      free.pop_back();
    }
    if (!is_pinned) in_use_ += rounded;
    peak_ = std::max(peak_, in_use_);
    return block;
  }

  void give_back(Block* block) {
    const std::lock_guard lock(mutex_);
    if (!block->is_pinned) in_use_ -= block->bytes;
    std::vector<stand_in::Mark> marks;
    for (const c10::Stream& stream : block->used_on) {
      for (auto& mark : pending(stream)) marks.push_back(std::move(mark));
    }
    if (marks.empty()) return put(block);
    leaving_.push_back({block, std::move(marks)});
  }

  void record(Block* block, c10::Stream stream) {
    const std::lock_guard lock(mutex_);
    if (block->is_pinned || stream != block->stream) block->used_on.push_back(stream);
  }

  std::size_t in_use() {
    const std::lock_guard lock(mutex_);
    return in_use_;
  }
  std::size_t peak() {
    const std::lock_guard lock(mutex_);
    return peak_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    peak_ = in_use_;
  }

 private:
  struct Leaving {
    Block* block;
    std::vector<stand_in::Mark> after;
  };
  struct Key {
    bool is_pinned;
    c10::Stream stream;
    std::size_t bytes;
    bool operator<(const Key& other) const {
      return std::make_tuple(is_pinned, stream.device_index(), stream.id(), bytes) <
             std::make_tuple(other.is_pinned, other.stream.device_index(), other.stream.id(), other.bytes);
    }
  };

  static void* allocate(std::size_t bytes, bool is_pinned) {
    void* memory = nullptr;
    check(is_pinned ? cudaMallocHost(&memory, bytes) : cudaMalloc(&memory, bytes), "allocating memory");
    return memory;
  }

  /// (1), (2)
  void put(Block* block) {
    block->used_on.clear();
    if (!block->is_pinned) {
      const c10::StreamGuard guard(block->stream);
      std::byte* const there = stand_in::memory().alias(block->memory, block->bytes);
      launch(block->stream.device(), [there, bytes = block->bytes] { std::memset(there, kFreed, bytes); });
    }
    const c10::Stream any(c10::Stream::DEFAULT, block->stream.device());
    free_[{block->is_pinned, block->is_pinned ? any : block->stream, block->bytes}].push_back(block);
  }

  void give_back_what_is_done() {
    for (auto at = leaving_.begin(); at != leaving_.end();) {
      bool done = false;
      {
        const auto lock = stand_in::machine().lock();
        done = stand_in::is_done(at->after);
      }
      if (!done) {
        ++at;
        continue;
      }
      put(at->block);
      at = leaving_.erase(at);
    }
  }

  std::mutex mutex_;
  std::map<Key, std::vector<Block*>> free_;
  std::list<Leaving> leaving_;
  std::size_t in_use_ = 0, peak_ = 0;
};

Cache& cache() {
  static auto& all = *new Cache;
  return all;
}

void release(void* context) {
  try {
    cache().give_back(static_cast<Block*>(context));
  } catch (const std::exception&) {
    // The device is lost; whoever calls it next says so.
  }
}

class CachingAllocator final : public at::Allocator {
 public:
  explicit CachingAllocator(bool is_pinned) : is_pinned_(is_pinned) {}

  at::DataPtr allocate(std::size_t bytes) override {
    const c10::Device device = with_index(c10::Device(kType));
    const c10::Device where = is_pinned_ ? c10::Device(c10::kCPU) : device;
    if (bytes == 0) return {nullptr, where};
    Block* const block = cache().take(bytes, is_pinned_, current_stream(device));
    return {block->memory, block, &release, where};
  }
  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*count*/) const override {
    TORCH_CHECK(false, "test device: copy_data");
  }

 private:
  bool is_pinned_;
};

}  // namespace

at::Allocator& device_allocator() {
  static auto& allocator = *new CachingAllocator(false);
  return allocator;
}

at::Allocator& pinned_allocator() {
  static auto& allocator = *new CachingAllocator(true);
  return allocator;
}

void record_stream(const c10::DataPtr& data, c10::Stream stream) {
  if (data.get_deleter() == &release) cache().record(static_cast<Block*>(data.get_context()), stream);
}

bool is_pinned(const void* memory) {
  const auto kind = stand_in::memory().kind_of(memory);
  return kind == stand_in::MemoryKind::kPinned || kind == stand_in::MemoryKind::kRegistered;
}

at::Tensor on_device(const at::Tensor& tensor) {
  const auto options = at::TensorOptions().dtype(tensor.scalar_type());
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->storage();
  std::byte* const there = stand_in::memory().alias(storage.data(), storage.nbytes());
  TORCH_CHECK(there != nullptr, "test device: a tensor whose memory the device does not reach");
  return at::from_blob(
      there, tensor.sizes(), tensor.strides(), tensor.storage_offset(), [](void*) {}, options, c10::Device(c10::kCPU));
}

std::size_t bytes_in_use() { return cache().in_use(); }
std::size_t peak_bytes() { return cache().peak(); }
void reset_peak_bytes() { cache().reset_peak(); }

}  // namespace mn::test_device

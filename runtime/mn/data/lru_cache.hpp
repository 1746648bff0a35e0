/// A thread-safe cache that drops what was used least recently.
///
/// A list in order of use, and an index from key to list entry.
///
/// (1) index_ and entries_ hold the same keys, each once.
/// (2) used_ is the sum of the entries' costs; it exceeds capacity_ only while there is one entry.
/// (3) A value that is dropped lives on with those who hold it.
///
/// Cost: O(1) for find() and insert(), under one mutex; values are made outside of it, so two threads may make the same
/// one at once.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace mn::data {

/// Values by key.
template <class Value>
class LruCache {
 public:
  /// Keeps values up to a total cost of `capacity`, and the last one whatever it costs.
  explicit LruCache(std::int64_t capacity) : capacity_(capacity) {}

  /// Null if absent.
  [[nodiscard]] std::shared_ptr<const Value> find(std::uint64_t key) {
    const std::lock_guard lock(mutex_);
    const auto at = index_.find(key);
    if (at == index_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, at->second);
    return at->second->value;
  }

  /// Keeps the value that is there already, if another thread was faster.
  void insert(std::uint64_t key, std::shared_ptr<const Value> value, std::int64_t cost) {
    const std::lock_guard lock(mutex_);
    if (index_.contains(key)) return;
    entries_.push_front({key, cost, std::move(value)});
    index_[key] = entries_.begin();
    used_ += cost;
    while (used_ > capacity_ && entries_.size() > 1) {
      used_ -= entries_.back().cost;
      index_.erase(entries_.back().key);
      entries_.pop_back();
    }
  }

 private:
  struct Entry {
    std::uint64_t key;
    std::int64_t cost;
    std::shared_ptr<const Value> value;
  };
  std::mutex mutex_;
  std::int64_t capacity_;
  std::int64_t used_ = 0;
  std::list<Entry> entries_;  // most recent first
  std::unordered_map<std::uint64_t, typename std::list<Entry>::iterator> index_;
};

}  // namespace mn::data

/// A thread-safe cache that drops the least recently used value.
///
/// (1) index_ and entries_ hold the same keys, each once; entries_ is in order of use.
/// (2) used_, the sum of the entries' costs, is at most capacity_, unless a single entry alone costs more.
/// (3) A dropped value stays alive as long as a caller of get() or find() holds it.
/// (4) A key is in making_ while a thread makes its value; other threads that want the value wait in get().
///
/// Cost: O(1) for each call, under one mutex. Values are made outside the mutex.
#pragma once

#include <cassert>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace mn::data {

template <class Value>
class LruCache {
 public:
  static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

  struct NewValue {
    std::shared_ptr<const Value> value;  ///< if null, get() returns null, and the cache keeps nothing
    std::int64_t cost = 0;
    /// After get() and find() have returned the value this many times, the first get() included, the cache drops it.
    std::int64_t uses = kUnlimited;
  };

  /// `capacity`: limit for the sum of costs. The most recently used value is kept even if it alone costs more.
  explicit LruCache(std::int64_t capacity) : capacity_(capacity) {}

  /// Returns the value of `key`. If the cache has none, calls make(), or waits for another thread that is making the
  /// value. Throws the errors of make().
  template <class Make>
  [[nodiscard]] std::shared_ptr<const Value> get(std::uint64_t key, const Make& make) {
    std::unique_lock lock(mutex_);
    made_.wait(lock, [&] { return !making_.contains(key); });
    if (auto found = use(key)) return found;
    assert(!making_.contains(key));  // only one thread makes the value
    making_.insert(key);
    lock.unlock();
    NewValue made;
    try {
      made = make();
    } catch (...) {
      lock.lock();
      finish(key);
      throw;
    }
    lock.lock();
    finish(key);
    if (made.value != nullptr) insert(key, made);
    return made.value;
  }

  [[nodiscard]] std::shared_ptr<const Value> find(std::uint64_t key) {
    const std::lock_guard lock(mutex_);
    return use(key);
  }

  void erase(std::uint64_t key) {
    const std::lock_guard lock(mutex_);
    if (const auto at = index_.find(key); at != index_.end()) remove(at->second);
  }

  void set_capacity(std::int64_t capacity) {
    const std::lock_guard lock(mutex_);
    capacity_ = capacity;
    shrink();
  }

  using Time = std::chrono::steady_clock::time_point;
  /// When the least recently used value was last used; Time::max() if the cache is empty.
  [[nodiscard]] Time oldest_use() const {
    const std::lock_guard lock(mutex_);
    return entries_.empty() ? Time::max() : entries_.back().used_at;
  }
  void drop_oldest() {
    const std::lock_guard lock(mutex_);
    if (!entries_.empty()) remove(std::prev(entries_.end()));
  }

  [[nodiscard]] std::int64_t size() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(entries_.size());
  }
  /// How many values were made so far, and how many were dropped to make room.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> made_and_dropped() const {
    const std::lock_guard lock(mutex_);
    return {values_made_, values_dropped_};
  }
  [[nodiscard]] std::int64_t used() const {
    const std::lock_guard lock(mutex_);
    return used_;
  }

 private:
  struct Entry {
    std::uint64_t key;
    NewValue made;
    Time used_at;
  };
  using At = typename std::list<Entry>::iterator;

  std::shared_ptr<const Value> use(std::uint64_t key) {
    const auto at = index_.find(key);
    if (at == index_.end()) return nullptr;
    auto value = at->second->made.value;
    if (--at->second->made.uses == 0) {
      remove(at->second);
    } else {
      at->second->used_at = std::chrono::steady_clock::now();
      entries_.splice(entries_.begin(), entries_, at->second);
    }
    return value;
  }

  void insert(std::uint64_t key, NewValue made) {
    ++values_made_;
    if (--made.uses == 0) return;
    entries_.push_front({key, std::move(made), std::chrono::steady_clock::now()});
    index_[key] = entries_.begin();
    used_ += entries_.front().made.cost;
    shrink();
  }

  void shrink() {
    for (; used_ > capacity_ && entries_.size() > 1; ++values_dropped_) remove(std::prev(entries_.end()));
    assert(used_ <= capacity_ || entries_.size() <= 1);  // the cost is limited
  }

  void remove(At at) {
    used_ -= at->made.cost;
    index_.erase(at->key);
    entries_.erase(at);
    assert(index_.size() == entries_.size());  // both hold the same keys
  }

  void finish(std::uint64_t key) {
    making_.erase(key);
    made_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable made_;
  std::int64_t capacity_;
  std::int64_t used_ = 0;
  std::int64_t values_made_ = 0;
  std::int64_t values_dropped_ = 0;
  std::list<Entry> entries_;  // most recent first
  std::unordered_map<std::uint64_t, At> index_;
  std::unordered_set<std::uint64_t> making_;
};

}  // namespace mn::data

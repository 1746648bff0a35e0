/// A job whose ranks are threads of this process, each with a peer monitor; MPI is a table.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/socket.h>

#include <mn/job/peer_monitor.hpp>

namespace mn::test {

using namespace std::chrono_literals;

/// Connections can be cut as by a dying process.
class Ranks {
 public:
  /// `strangers` connect to rank 0 before its children, and say `words`.
  explicit Ranks(
      int size, std::chrono::milliseconds timeout = 5000ms, int strangers = 0, std::string words = "",
      std::function<PeerSurvey(int rank)> survey_of = [](int) { return PeerSurvey(); })
      : table_(static_cast<std::size_t>(size)),
        turn_(size),
        monitors_(table_.size()),
        losses_(table_.size()),
        strangers_(static_cast<std::size_t>(strangers)),
        words_(std::move(words)),
        survey_of_(std::move(survey_of)) {
    std::vector<std::thread> starts;
    for (int rank = 0; rank < size; ++rank) starts.emplace_back([this, rank, timeout] { start(rank, timeout); });
    for (auto& each : starts) each.join();
  }
  ~Ranks() { leave(); }

  /// All say goodbye, as at the end of a job.
  void leave() {
    std::vector<std::thread> ends;
    for (auto& monitor : monitors_) ends.emplace_back([&] { monitor.reset(); });
    for (auto& each : ends) each.join();
  }
  PeerMonitor& operator[](int rank) { return *monitors_[static_cast<std::size_t>(rank)]; }
  /// The rank's connections end without an announcement.
  void cut(int rank) {
    for (const auto& link : (*this)[rank].links()) shutdown(link.socket, SHUT_RDWR);
  }
  /// The loss that `rank` noticed within a minute: no value, "" for an end reported by another rank, or the message.
  std::optional<std::string> loss(int rank) {
    for (int i = 0; i < 6000; ++i) {
      {
        const std::lock_guard lock(mutex_);
        if (losses_[static_cast<std::size_t>(rank)]) return losses_[static_cast<std::size_t>(rank)];
      }
      std::this_thread::sleep_for(10ms);
    }
    return std::nullopt;
  }
  /// Ranks whose monitors have called `silence`.
  [[nodiscard]] int silent() const { return silent_; }
  /// Within a minute.
  bool become_silent(int count) {
    for (int i = 0; i < 6000 && silent_ < count; ++i) std::this_thread::sleep_for(10ms);
    return silent_ == count;
  }
  bool all_quiet() {
    const std::lock_guard lock(mutex_);
    return std::none_of(losses_.begin(), losses_.end(), [](const auto& loss) { return loss.has_value(); });
  }

 private:
  void start(int rank, std::chrono::milliseconds timeout) {
    PeerMonitorOptions options;
    options.rank = rank;
    options.size = static_cast<int>(table_.size());
    options.host = "here";
    options.timeout = timeout;
    options.heartbeat = timeout / 10;
    options.patience = 300ms;
    options.silence = [this] { ++silent_; };
    options.survey = survey_of_(rank);
    const auto exchange = [this, rank](const std::string& text) {
      table_[static_cast<std::size_t>(rank)] = text;
      turn_.arrive_and_wait();
      auto all = table_;
      if (rank == 0) connect_strangers(all[0]);
      turn_.arrive_and_wait();
      return all;
    };
    const auto on_loss = [this, rank](const std::optional<std::string>& message) {
      const std::lock_guard lock(mutex_);
      losses_[static_cast<std::size_t>(rank)] = message.value_or("");
    };
    monitors_[static_cast<std::size_t>(rank)] = std::make_unique<PeerMonitor>(options, exchange, on_loss);
  }

  /// `text`: rank 0's host, then its port and more.
  void connect_strangers(const std::string& text) {
    const auto port = static_cast<std::uint16_t>(std::atoi(text.c_str()));
    for (Fd& each : strangers_) {
      if (port != 0) each = connect_until("127.0.0.1", port, Clock::now() + 1s);
      if (each) send_bytes(each, std::as_bytes(std::span(words_)));
    }
  }

  std::vector<std::string> table_;
  std::barrier<> turn_;
  std::mutex mutex_;
  std::atomic<int> silent_ = 0;
  std::vector<std::unique_ptr<PeerMonitor>> monitors_;
  std::vector<std::optional<std::string>> losses_;
  std::vector<Fd> strangers_;
  std::string words_;
  std::function<PeerSurvey(int rank)> survey_of_;
};

}  // namespace mn::test

#include <mn/comm/calls/call_timeouts.hpp>

#include <algorithm>
#include <thread>

#include <mn/core/error.hpp>

namespace mn {
namespace {

using Clock = TimedCall::Clock;

constexpr auto kBetweenLooks = std::chrono::milliseconds(1);
constexpr auto kAnswerTime = std::chrono::milliseconds(50);  // the shortest time for answers
constexpr auto kSpinTime = std::chrono::milliseconds(20);    // then a wait sleeps instead of spinning
constexpr auto kPause = std::chrono::microseconds(50);

thread_local TimedCall* current = nullptr;

std::string described(const CallName& call) {
  std::string text(call.operation);
  if (call.count > 0) text += " of " + std::to_string(call.count) + " " + std::string(name_of(call.dtype));
  return text;
}

/// Returns ", call 12 of this communicator,", or an empty text if the call has no number.
std::string numbered(const CallName& call) {
  return call.number == 0 ? std::string() : ", call " + std::to_string(call.number) + " of this communicator,";
}

/// Returns "rank 2" or "ranks 2, 5 and 7". Of a long list, names ten ranks and counts the others.
std::string listed(const std::vector<int>& ranks) {
  constexpr std::size_t kMaxListed = 10;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kMaxListed); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (ranks.size() > kMaxListed) text += " and " + std::to_string(ranks.size() - kMaxListed) + " more";
  return text;
}

std::string in_seconds(std::chrono::milliseconds time) {
  std::string text = std::to_string(time.count() / 1000);
  if (const auto rest = time.count() % 1000; rest != 0) {
    text += "." + std::to_string(1000 + rest).substr(1);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text + " s";
}

/// The pauses of a loop that polls a condition. Early pauses only yield the CPU; later pauses sleep.
class Pauses {
 public:
  void operator()() const {
    if (Clock::now() - begin_ < kSpinTime) return std::this_thread::yield();
    std::this_thread::sleep_for(kPause);
  }

 private:
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

void CallTimeouts::abort(const std::string& reason) {
  fail(reason);
  notices_.send_all({Notice::Kind::kGaveUp, group_.rank, 0, {}, reason});
}

void CallTimeouts::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = reason;
  failed_ = true;
}

bool CallTimeouts::has_failed() {
  // Takes only kGaveUp notices: questions and answers stay until this rank waits in a call.
  for (Notice notice; notices_.take(notice, Notice::Kind::kGaveUp);) fail(notice.text);
  return failed_;
}

std::string CallTimeouts::failure() const {
  if (!failed_) return {};
  const std::lock_guard lock(mutex_);
  return failure_;
}

TimedCall::TimedCall(CallTimeouts& timeouts, const CallName& call, End end,
                     std::optional<std::chrono::milliseconds> timeout)
    : timeouts_(timeouts),
      call_(call),
      end_(end),
      timeout_(timeout.value_or(timeouts.timeout())),
      outer_(std::exchange(current, this)) {}

TimedCall::~TimedCall() { current = outer_; }

void TimedCall::check() {
  if (const auto now = Clock::now(); now >= next_look_) look(now);
}

bool TimedCall::is_given_up(CallTimeouts& timeouts, const CallName& call) {
  try {
    TimedCall(timeouts, call, End::kFailure).check();
    return false;
  } catch (const CommError&) {
    return true;
  }
}

void TimedCall::look(Clock::time_point now) {
  next_look_ = now + kBetweenLooks;
  end_if_failed();
  for (Notice notice; timeouts_.notices_.take(notice);) take(notice);
  end_if_failed();
  if (end_ == End::kFailure) return;
  // In milliseconds, because a long time-out in nanoseconds would overflow.
  const auto waited = std::chrono::floor<std::chrono::milliseconds>(now - begin_);
  if (question_ == 0 && call_.number != 0 && waited >= timeout_ / 2) {
    question_ = ++timeouts_.questions_;
    answers_.resize(static_cast<std::size_t>(timeouts_.group_.size));
    asked_ = now;
    timeouts_.notices_.send_all({Notice::Kind::kQuestion, timeouts_.group_.rank, question_, call_, {}});
  }
  // Arrived notices were taken first: a rank that answered in time must not count as missing.
  if (waited >= timeout_ && (question_ == 0 || now - asked_ >= kAnswerTime)) give_up();
}

void TimedCall::take(const Notice& notice) {
  switch (notice.kind) {
    case Notice::Kind::kGaveUp:
      return timeouts_.fail(notice.text);
    case Notice::Kind::kQuestion:
      return timeouts_.notices_.send(notice.rank,
                                     {Notice::Kind::kAnswer, timeouts_.group_.rank, notice.question, call_, {}});
    case Notice::Kind::kAnswer:
      if (notice.question != question_) return;
      answers_[static_cast<std::size_t>(notice.rank)] = notice;
  }
}

void TimedCall::end_if_failed() const {
  if (timeouts_.failed_) throw CommError(described(call_) + numbered(call_) + " ends: " + timeouts_.failure());
}

void TimedCall::give_up() {
  const std::string why =
      described(call_) + numbered(call_) + " has not ended in " + in_seconds(timeout_) + ": " + who_is_missing();
  timeouts_.abort("rank " + std::to_string(timeouts_.group_.rank) + " has given up: " + why);
  throw CommError(why);
}

std::string TimedCall::who_is_missing() const {
  if (call_.number == 0) {
    if (call_.peer < 0) return "no rank has made the call that matches it";
    return "rank " + std::to_string(call_.peer) + " has not made the call that matches it";
  }
  std::vector<int> missing;
  std::string elsewhere;
  for (int rank = 0; rank < timeouts_.group_.size; ++rank) {
    if (rank == timeouts_.group_.rank) continue;
    const auto& answer = answers_[static_cast<std::size_t>(rank)];
    if (!answer) {
      missing.push_back(rank);
      continue;
    }
    const CallName other{answer->operation, answer->number, answer->count, answer->dtype};
    if (other.number == call_.number && described(other) == described(call_)) continue;
    if (elsewhere.empty())
      elsewhere = "rank " + std::to_string(rank) + " waits in " + described(other) + numbered(other);
  }
  if (!missing.empty()) {
    const std::string who = listed(missing) + (missing.size() == 1 ? " has not joined it" : " have not joined it");
    return elsewhere.empty() ? who : who + ", and " + elsewhere;
  }
  if (!elsewhere.empty()) return elsewhere;
  return "every rank is in it; a longer time-out, or a look at the network";
}

TimedCall* timed_call() noexcept { return current; }

void mpi_wait(std::span<MPI_Request> requests, const Operation& operation, std::size_t bytes) {
  const int count = static_cast<int>(requests.size());
  if (current == nullptr) {
    return mpi_check(MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE), operation.text, bytes, operation.where);
  }
  // Not MPI_Waitall, which would wait beyond the time-out.
  const Pauses pause;
  for (int done = 0; true; pause()) {
    mpi_check(MPI_Testall(count, requests.data(), &done, MPI_STATUSES_IGNORE), operation.text, bytes, operation.where);
    if (done != 0) return;
    current->check();
  }
}

void mpi_wait(MPI_Request& request, MPI_Status* status, const Operation& operation, std::size_t bytes) {
  if (current == nullptr) return mpi_check(MPI_Wait(&request, status), operation.text, bytes, operation.where);
  const Pauses pause;
  for (int done = 0; true; pause()) {
    mpi_check(MPI_Test(&request, &done, status), operation.text, bytes, operation.where);
    if (done != 0) return;
    current->check();
  }
}

}  // namespace mn

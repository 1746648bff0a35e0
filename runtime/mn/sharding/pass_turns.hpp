/// Lets ranks use different parameters in a pass.
///
/// Gathers and reductions are collective, but a rank may have no samples, or may use different blocks than the rest.
/// Therefore the ranks agree on every gather and reduction first.
/// (1) Each rank names the call that the rank needs; a rank at the end of the pass names none. All ranks make the call
///     with the highest number. A rank whose call was not chosen names the call again.
/// (2) The pass ends once no rank names a call. A rank without samples takes part in all calls until the end.
/// Cost: an allreduce of 8 bytes for each call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <mn/comm/communicator.hpp>

namespace mn {

class PassTurns : public std::enable_shared_from_this<PassTurns> {
 public:
  /// Makes the model's call `number`. `is_own` is true if the calling rank has named the call.
  using Call = std::function<void(std::int64_t number, bool is_own)>;

  /// The object for all models that the ranks of `comm` shard.
  [[nodiscard]] static std::shared_ptr<PassTurns> of(Communicator& comm);
  explicit PassTurns(Communicator& comm);
  ~PassTurns();
  PassTurns(const PassTurns&) = delete;
  PassTurns& operator=(const PassTurns&) = delete;

  /// Collective: adds a model; `make` makes the model's calls. Returns the model's number.
  [[nodiscard]] std::size_t add(Call make);
  void remove(std::size_t model) { models_[model] = nullptr; }
  /// Collective in the sense of (1): makes the ranks' calls up to and including `call`.
  void take(std::size_t model, std::int64_t call) { make_calls(1 + static_cast<std::int64_t>(model) * kCalls + call); }
  /// Collective: makes the ranks' calls until all ranks have entered join().
  void join() { make_calls(0); }
  /// Collective: join() for each object of this process.
  static void join_all();

 private:
  static constexpr std::int64_t kCalls = std::int64_t{1} << 32;
  void make_calls(std::int64_t own);

  Communicator& comm_;
  std::vector<Call> models_;
};

}  // namespace mn

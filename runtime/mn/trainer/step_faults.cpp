#include <mn/trainer/step_faults.hpp>

#include <algorithm>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn {

void StepFaults::keep(Fault fault) {
  if (!any()) fault_ = std::move(fault);
}

void StepFaults::keep(const std::string& what) { keep(Fault{what}); }

void StepFaults::keep_error_of(const std::function<void()>& check) {
  try {
    check();
  } catch (const UsageError& error) {
    keep(Fault{error.what()});
  } catch (const ArgumentError& error) {
    keep(Fault{error.what(), true});
  }
}

void StepFaults::throw_first(Communicator& ranks) {
  const Fault own = std::exchange(fault_, {});
  const auto faults = ranks.allgather_obj(nlohmann::json::array({own.what, own.is_argument}));
  const auto first = std::ranges::find_if(faults, [](const auto& fault) { return fault[0] != ""; });
  if (first == faults.end()) return;
  const bool on_all = std::ranges::count(faults, *first) == std::ssize(faults);
  const std::string what =
      (on_all ? "" : "on rank " + std::to_string(first - faults.begin()) + ", ") + (*first)[0].get<std::string>();
  if ((*first)[1].get<bool>()) throw ArgumentError(what, true);
  throw UsageError(what);
}

}  // namespace mn

#include <mn/trainer/extension_list.hpp>

#include <algorithm>
#include <cassert>
#include <exception>

#include <c10/util/ScopeExit.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/activity.hpp>
#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

/// Returns member(). If libtorch or another library throws an error, puts the extension's name before the error's text.
template <class Member>
auto name_errors(const std::string& extension, const Member& member) {
  try {
    return member();
  } catch (const Error&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    std::throw_with_nested(Error("the extension \"" + extension + "\" failed: " + first_line_of(error.what())));
  }
}

}  // namespace

// These functions are defined here because extension.hpp only declares nlohmann::json and Communicator.
nlohmann::json Extension::state() const { return nullptr; }

void Extension::map_rank_tensors(const std::vector<NamedTensors>& saved, const Communicator& comm) {
  throw DataError("the state of the extension \"" + name() + "\" differs by rank, and the number of ranks was " +
                      std::to_string(saved.size()) + " and is " + std::to_string(comm.size()) +
                      ": resume with as many ranks as before, or map the state (Extension::map_rank_tensors)",
                  true);
}

void ExtensionList::add(std::unique_ptr<Extension> extension, const ExtendOptions& options) {
  const std::string name = utf8_text(options.name.empty() ? extension->name() : options.name);  // a key in JSON
  const int priority = options.priority.value_or(extension->priority());
  const Interval trigger = options.trigger.value_or(extension->trigger());
  if (std::ranges::find(entries_, name, &Entry::name) != entries_.end()) {
    throw ArgumentError("the trainer has an extension named \"" + name + "\" already: give another name");
  }
  // Extensions of equal priority stay in the order in which add() was called. This order is the same on all ranks.
  const auto after =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.priority < priority; });
  const auto added = entries_.insert(after, {name, std::move(extension), trigger, priority, 0, 0, false});
  assert(std::ranges::is_sorted(entries_, std::greater<>(), &Entry::priority));
  if (!restored_.about.is_null()) restore(*added);
}

void ExtensionList::save(nlohmann::json& about, std::int64_t iteration) const {
  nlohmann::json& states = about["extensions"] = nlohmann::json::object();
  std::vector<std::string> pending, ran;
  for (const Entry& entry : entries_) {
    if (entry.is_pending) pending.push_back(entry.name);
    if (entry.last_iteration == iteration) ran.push_back(entry.name);
    try {
      states[entry.name] = name_errors(entry.name, [&] { return storable(entry.extension->state()); });
    } catch (const DataError& error) {
      throw DataError("the state of the extension " + entry.name + " " + error.what());
    }
  }
  about["pending"] = pending;
  about["ran"] = ran;
}

void ExtensionList::load(Restored restored) {
  restored_ = std::move(restored);
  for (const char* names : {"pending", "ran"}) {  // a checkpoint of an earlier version lacks these names
    if (!restored_.about.contains(names)) restored_.about[names] = std::vector<std::string>();
  }
  for (Entry& entry : entries_) restore(entry);
}

NamedTensors ExtensionList::tensors(bool replicated) const {
  NamedTensors all;
  for (const Entry& entry : entries_) {
    if (entry.extension->are_tensors_replicated() != replicated) continue;
    for (auto& [name, tensor] : entry.extension->tensors())
      all.emplace_back(entry.name + "/" + name, std::move(tensor));
  }
  return all;
}

NamedTensors ExtensionList::rank_tensors() const {
  NamedTensors all;
  for (const Entry& entry : entries_) {
    for (auto& [name, tensor] : entry.extension->rank_tensors()) {
      if (tensor.defined()) all.emplace_back(entry.name + "/" + name, std::move(tensor));
    }
  }
  return all;
}

void ExtensionList::observe_all(const Summary& values) {
  for (Entry& entry : entries_) {
    if (entry.extension->observes_all()) entry.observed.merge(values, "main/");
  }
}

nlohmann::json ExtensionList::rank_state() const {
  nlohmann::json states = nlohmann::json::object();
  for (const Entry& entry : entries_) {
    if (entry.extension->observes_all()) states[entry.name] = entry.observed.state();
  }
  return states;
}

void ExtensionList::initialize(Trainer& trainer) {
  for (Entry& entry : entries_) entry.last_run_s = elapsed_s_();
  restored_ = {};  // from now on, no extension can be added
  // All states are loaded by now, because initialize() of an extension may use the state of any extension.
  for (Entry& entry : entries_) name_errors(entry.name, [&] { entry.extension->initialize(trainer); });
}

void ExtensionList::check(const nlohmann::json& about, const std::string& source) const {
  const nlohmann::json& states = about.at("extensions");
  for (const Entry& entry : entries_) {
    if (!states.contains(entry.name)) continue;
    entry.extension->check_state(from_storable(states.at(entry.name), source), source);
  }
}

/// An extension without a state in the checkpoint starts as in a new training.
void ExtensionList::restore(Entry& entry) const {
  const auto own_of = [&](const NamedTensors& all) { return with_prefix(all, entry.name + "/"); };
  // Tensors are loaded before the state, because the state may refer to tensors.
  if (const auto own = own_of(restored_.tensors); !own.empty()) entry.extension->load_tensors(own);
  if (const auto own = own_of(restored_.own); !own.empty()) entry.extension->load_rank_tensors(own);
  std::vector<NamedTensors> saved;
  for (const NamedTensors& theirs : restored_.other_ranks) saved.push_back(own_of(theirs));
  if (!std::ranges::all_of(saved, &NamedTensors::empty)) entry.extension->map_rank_tensors(saved, *comm_);
  entry.observed = {};
  for (const nlohmann::json& states : restored_.observed) {
    Summary theirs;
    theirs.load_state(states.value(entry.name, nlohmann::json::object()));
    entry.observed.merge(theirs);
  }
  if (const nlohmann::json& states = restored_.about.at("extensions"); states.contains(entry.name)) {
    const std::string what = "the checkpoint's state of " + entry.name;
    const nlohmann::json state = from_storable(states.at(entry.name), what);
    read_json(what, [&] { entry.extension->load_state(state); });
  }
  const auto is_in = [&](const char* names) {
    return std::ranges::find(restored_.about.at(names), nlohmann::json(entry.name)) != restored_.about.at(names).end();
  };
  entry.is_pending = is_in("pending");
  entry.last_iteration = is_in("ran") ? count_of(restored_.about.at("iteration")) : 0;
}

void ExtensionList::after_forward(Trainer& trainer, const at::Tensor& loss) {
  for (Entry& entry : entries_) entry.extension->after_forward(trainer, loss);
}

void ExtensionList::observe(const at::Tensor& loss, const Summary& metrics) {
  for (Entry& entry : entries_) entry.extension->observe(loss, metrics);
}

void ExtensionList::find_due(const Progress& progress) {
  // All ranks run the same extensions, because fires() depends only on values that are equal on all ranks.
  for (Entry& entry : entries_) entry.is_pending = fires(entry, progress);
}

bool ExtensionList::run_pending(Trainer& trainer, const Progress& progress, Part part, const MayBegin& may_begin) {
  is_running_ = true;
  const auto end = c10::make_scope_exit([this] { is_running_ = false; });
  for (Entry& entry : entries_) {
    if ((entry.priority > kPriorityReport) != (part == Part::kReporting)) continue;
    if (entry.is_pending && entry.extension->duration() != Duration::kShort) {
      for (Entry& each : entries_) {
        if (each.extension->saves() && !run_one(trainer, progress, each, may_begin)) return false;
      }
    }
    if (!run_one(trainer, progress, entry, may_begin)) return false;
  }
  return true;
}

bool ExtensionList::run_one(Trainer& trainer, const Progress& progress, Entry& entry, const MayBegin& may_begin) {
  if (!entry.is_pending) return true;
  if (!may_begin(entry.extension->duration())) return false;
  entry.is_pending = false;  // before run(), because run() may write a checkpoint
  Summary observed = std::exchange(entry.observed, {});
  const auto run = [&] {
    if (entry.extension->observes_all()) entry.extension->observe_all(trainer, observed.mean_over_ranks(*comm_));
    entry.extension->run(trainer);
  };
  if (!call(entry, run)) {
    entry.observed = std::move(observed);
    return false;
  }
  entry.last_run_s = elapsed_s_();
  entry.last_iteration = progress.iteration;
  return true;
}

/// Returns false if a signal or the time limit has interrupted `member`; the extension is then pending again.
bool ExtensionList::call(Entry& entry, const std::function<void()>& member) {
  const ActivityScope activity("extension " + entry.name);
  const double begin_s = elapsed_s_();
  try {
    name_errors(entry.name, member);
  } catch (const Interrupted&) {
    entry.is_pending = true;
  }
  const double seconds = elapsed_s_() - begin_s;
  if (entry.extension->saves()) {
    times_.checkpoint_s += seconds;
  } else if (entry.extension->duration() != Duration::kShort) {
    times_.validation_s += seconds;
  }
  return !entry.is_pending;
}

bool ExtensionList::any_pending() const { return std::ranges::any_of(entries_, &Entry::is_pending); }

bool ExtensionList::is_pending(const Extension& extension) const {
  return std::ranges::any_of(
      entries_, [&](const Entry& entry) { return entry.extension.get() == &extension && entry.is_pending; });
}

void ExtensionList::run_at_end(Trainer& trainer, const Progress& progress) {
  is_running_ = true;
  const auto end = c10::make_scope_exit([this] { is_running_ = false; });
  for (Entry& entry : entries_) {
    if (entry.is_pending || entry.last_iteration == progress.iteration) continue;
    // The result is ignored: if one extension is interrupted, all later extensions still report.
    static_cast<void>(call(entry, [&] { entry.extension->at_end(trainer); }));
  }
}

bool ExtensionList::take_report(Trainer& trainer, const std::string& name, double value) {
  return is_running_ && std::ranges::any_of(entries_, [&](const Entry& entry) {
           return entry.extension->take_report(trainer, name, value);
         });
}

void ExtensionList::finalize(Trainer& trainer) {
  for (Entry& entry : entries_) {
    const ActivityScope activity("extension " + entry.name);
    name_errors(entry.name, [&] { entry.extension->finalize(trainer); });
  }
}

bool ExtensionList::any_by_seconds() const {
  return std::ranges::any_of(entries_, [](const Entry& entry) { return entry.trigger.unit == IntervalUnit::kSecond; });
}

std::vector<std::int64_t> ExtensionList::due() const {
  const double elapsed_s = elapsed_s_();
  std::vector<std::int64_t> flags;
  for (const Entry& entry : entries_) {
    if (entry.trigger.unit != IntervalUnit::kSecond) continue;
    flags.push_back(elapsed_s - entry.last_run_s >= entry.trigger.every ? 1 : 0);
  }
  return flags;
}

void ExtensionList::set_due(std::span<const std::int64_t> flags) {
  std::size_t next = 0;
  for (Entry& entry : entries_) {
    if (entry.trigger.unit == IntervalUnit::kSecond) entry.due = flags[next++] != 0;
  }
  assert(next == flags.size());
}

bool ExtensionList::fires(Entry& entry, const Progress& progress) {
  const auto iteration = static_cast<double>(progress.iteration);
  switch (entry.trigger.unit) {
    case IntervalUnit::kEpoch:
      return entry.trigger.passed(progress.previous_epoch_detail, progress.epoch_detail);
    case IntervalUnit::kIteration:
      return entry.trigger.passed(iteration - 1, iteration);
    case IntervalUnit::kSecond:
      return std::exchange(entry.due, false);
  }
  return false;
}

}  // namespace mn

#include <mn/trainer/extension_list.hpp>

#include <algorithm>
#include <cassert>

#include <mn/core/activity.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

/// Returns member(). Errors of foreign libraries get the extension's name, because the texts do not name their origin.
template <class Member>
auto name_errors(const std::string& extension, const Member& member) {
  try {
    return member();
  } catch (const Error&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    const std::string what = error.what();  // libtorch appends a stack trace
    throw Error("the extension \"" + extension + "\" failed: " + what.substr(0, what.find('\n')));
  }
}

}  // namespace

// Defined here, because the header has only forward declarations of nlohmann-json.
nlohmann::json Extension::state() const { return nullptr; }

/// While an object of this class lives, an extension runs, and reported values are the extension's.
class ExtensionList::Running {
 public:
  explicit Running(bool& is_running) : is_running_(is_running) { is_running_ = true; }
  ~Running() { is_running_ = false; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  bool& is_running_;
};

void ExtensionList::add(std::unique_ptr<Extension> extension, const ExtendOptions& options) {
  const std::string name = utf8_text(options.name.empty() ? extension->name() : options.name);  // a key in JSON
  const int priority = options.priority.value_or(extension->priority());
  const Interval trigger = options.trigger.value_or(extension->trigger());
  for (const Entry& entry : entries_) {
    if (entry.name == name) {
      throw ArgumentError("the trainer has an extension named \"" + name + "\" already: give another name");
    }
  }
  // Higher priorities first; equal priorities in the order of add(), equal on all ranks.
  const auto after =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.priority < priority; });
  entries_.insert(after, {name, std::move(extension), trigger, priority, 0, 0, false});
  assert(std::ranges::is_sorted(entries_, std::greater<>(), &Entry::priority));
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

void ExtensionList::load(const nlohmann::json& about) {
  restored_ = {{"iteration", about.at("iteration")}, {"extensions", about.at("extensions")}};
  for (const char* names : {"pending", "ran"}) restored_[names] = about.value(names, std::vector<std::string>());
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

void ExtensionList::initialize(Trainer& trainer) {
  for (Entry& entry : entries_) {
    if (!restored_.empty()) restore(entry);
    entry.last_run_s = elapsed_s_();
  }
  restored_tensors_.clear();
  restored_ = nlohmann::json::object();  // a second run() continues from the states of the first run()
  // After all states are loaded: initialize() may use the state of any extension.
  for (Entry& entry : entries_) name_errors(entry.name, [&] { entry.extension->initialize(trainer); });
}

/// Gives an entry the state and tensors of the checkpoint. An extension without a saved state begins anew.
void ExtensionList::restore(Entry& entry) const {
  NamedTensors own;
  for (const auto& [name, tensor] : restored_tensors_) {
    if (name.starts_with(entry.name + "/")) own.emplace_back(name.substr(entry.name.size() + 1), tensor);
  }
  if (!own.empty()) entry.extension->load_tensors(own);  // before the state, which may refer to the tensors
  if (const nlohmann::json& states = restored_.at("extensions"); states.contains(entry.name)) {
    const std::string what = "the checkpoint's state of " + entry.name;
    const nlohmann::json state = from_storable(states.at(entry.name), what);
    read_json(what, [&] { entry.extension->load_state(state); });
  }
  const auto is_in = [&](const char* names) {
    return std::ranges::find(restored_.at(names), nlohmann::json(entry.name)) != restored_.at(names).end();
  };
  entry.is_pending = is_in("pending");
  entry.last_iteration = is_in("ran") ? count_of(restored_.at("iteration")) : 0;
}

void ExtensionList::after_forward(Trainer& trainer, const at::Tensor& loss) {
  for (Entry& entry : entries_) entry.extension->after_forward(trainer, loss);
}

void ExtensionList::observe(const at::Tensor& loss, const Summary& metrics) {
  for (Entry& entry : entries_) entry.extension->observe(loss, metrics);
}

void ExtensionList::find_due(const Progress& progress) {
  // fires() must return the same on all ranks (see due()), because extensions may make collective calls.
  for (Entry& entry : entries_) entry.is_pending = fires(entry, progress);
}

bool ExtensionList::run_pending(Trainer& trainer, const Progress& progress, Part part, const MayBegin& may_begin) {
  const Running running(is_running_);
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
  if (!call(entry, [&] { entry.extension->run(trainer); })) return false;
  entry.last_run_s = elapsed_s_();
  entry.last_iteration = progress.iteration;
  return true;
}

/// Calls a member of an extension. Returns false if a signal or the time limit interrupted the call: the extension is
/// pending again.
bool ExtensionList::call(Entry& entry, const std::function<void()>& member) {
  const ActivityScope activity("extension " + entry.name);
  try {
    name_errors(entry.name, member);
  } catch (const Interrupted&) {
    entry.is_pending = true;
    return false;
  }
  return true;
}

bool ExtensionList::any_pending() const { return std::ranges::any_of(entries_, &Entry::is_pending); }

bool ExtensionList::is_pending(const Extension& extension) const {
  return std::ranges::any_of(
      entries_, [&](const Entry& entry) { return entry.extension.get() == &extension && entry.is_pending; });
}

void ExtensionList::run_at_end(Trainer& trainer, const Progress& progress) {
  const Running running(is_running_);
  for (Entry& entry : entries_) {
    if (entry.is_pending || entry.last_iteration == progress.iteration) continue;
    // If an extension is interrupted, all later extensions still report.
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
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.trigger.unit == IntervalUnit::kSecond; });
}

std::vector<std::int64_t> ExtensionList::due() const {
  // Clocks of ranks differ: due() is the rank's answer, and set_due() gets the agreed answer.
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

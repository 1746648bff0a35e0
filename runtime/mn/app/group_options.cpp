#include <mn/app/group_options.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn::app {
namespace {

using extensions::FrozenEpochs;

constexpr const char* kForm =
    "PATTERN:SETTING,…, where a setting is rate=F, decay=X, freeze, freeze=N, warmup=N or schedule=constant, step, "
    "linear, cosine, wsd or onecycle";

[[noreturn]] void throw_malformed(const std::string& text, const std::string& why) {
  throw UsageError("--group \"" + text + "\": " + why + "; the form is " + kForm);
}

/// Parses a finite number ≥ 0. No value if `text` is not such a number.
std::optional<double> number_in(std::string_view text) {
  const auto number = parse_number<double>(text);
  return number && std::isfinite(*number) && *number >= 0 ? number : std::nullopt;
}

bool is_curve(std::string_view name) {
  constexpr std::array<std::string_view, 6> kCurves = {"constant", "step", "linear", "cosine", "wsd", "onecycle"};
  return std::ranges::find(kCurves, name) != kCurves.end();
}

/// Stores a setting in `group`. False if no setting is called `name`, or if `value` is not valid for the setting.
bool take(Group& group, std::string_view name, std::string_view value) {
  const std::optional<double> number = number_in(value);
  if (name == "schedule") {
    group.schedule = value;
    return is_curve(value);
  }
  if (name == "freeze" && value.empty()) {
    group.frozen = FrozenEpochs::kForever;
    return true;
  }
  if (!number) return false;
  if (name == "rate") group.rule.rate = *number;
  if (name == "decay") group.rule.weight_decay = *number;
  if (name == "warmup") group.warmup = *number;
  if (name == "freeze") group.frozen = static_cast<std::int64_t>(*number);
  const bool is_whole = name != "freeze" || (*number < 1e9 && *number == std::floor(*number));
  return is_whole && (name == "rate" || name == "decay" || name == "warmup" || name == "freeze");
}

/// Throws UsageError if one setting of the group makes another setting useless.
void check_effects(const Group& group, const std::string& text, const std::set<std::string_view>& given) {
  if (group.schedule == "onecycle" && group.warmup) throw_malformed(text, "onecycle rises by itself, without warmup");
  if (group.frozen == FrozenEpochs::kForever && given.size() > 1) {
    const auto other = std::ranges::find_if(given, [](std::string_view name) { return name != "freeze"; });
    throw_malformed(text, std::string(*other) + " has no effect on parameters that stay frozen");
  }
}

Group parse_group(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  Group group;
  std::set<std::string_view> given;  // names of the settings so far
  group.rule.pattern = text.substr(0, colon);
  if (colon == std::string::npos || colon == 0) throw_malformed(text, "it has no pattern or no settings");
  for (std::string_view setting : split(std::string_view(text).substr(colon + 1), ',')) {
    setting.remove_prefix(std::min(setting.find_first_not_of(' '), setting.size()));
    const std::size_t equals = std::min(setting.find('='), setting.size());
    const std::string_view value = setting.substr(std::min(equals + 1, setting.size()));
    const std::string_view name = setting.substr(0, equals);
    if (!take(group, name, value)) throw_malformed(text, "\"" + std::string(setting) + "\" is no setting");
    if (!given.insert(name).second) throw_malformed(text, std::string(name) + " is given twice");
  }
  check_effects(group, text, given);
  return group;
}

}  // namespace

std::vector<Group> parse_groups(const std::vector<std::string>& texts) {
  std::vector<Group> groups;
  for (const std::string& text : texts) {
    Group group = parse_group(text);
    const auto is_same = [&](const Group& other) { return other.rule.pattern == group.rule.pattern; };
    if (std::ranges::any_of(groups, is_same)) throw_malformed(text, "there is a group of this pattern already");
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<GroupRule> rules_of(const std::vector<Group>& groups) {
  std::vector<GroupRule> rules;
  for (const Group& group : groups) rules.push_back(group.rule);
  return rules;
}

std::vector<FrozenEpochs> frozen_epochs(const std::vector<Group>& groups) {
  std::vector<FrozenEpochs> all;
  for (const Group& group : groups) {
    if (group.frozen) all.push_back({.pattern = group.rule.pattern, .until = *group.frozen});
  }
  return all;
}

}  // namespace mn::app

// Source: sbatch(1) and srun(1) of Slurm 22.05 to 25.05.
#include "batch/slurm_options.hpp"

#include <algorithm>
#include <regex>
#include <string_view>

#include <mn/core/suggest.hpp>
#include <mn/core/text.hpp>

#include "batch/shell_command.hpp"

namespace mn::launcher {
namespace {

using Words = std::vector<std::string>;

// Names with "=" take a value, names with "?" take one behind = only. A letter behind a slash is the short option.
constexpr std::string_view kBoth =
    "account=/A acctg-freq= bb= bbf= begin=/b chdir=/D cluster-constraint= comment= constraint=/C container= "
    "container-env= container-id= container-image= container-mount-home container-mounts= container-name= "
    "container-save= container-workdir= container-writable contiguous core-spec=/S cores-per-socket= cpu-freq= "
    "cpus-per-gpu= cpus-per-task=/c deadline= delay-boot= dependency=/d distribution=/m error=/e exclude=/x exclusive? "
    "export= extra= extra-node-info=/B get-user-env? gid= gpu-bind= gpu-freq= gpus=/G gpus-per-node= gpus-per-socket= "
    "gpus-per-task= gres= gres-flags= help/h hint= hold/H input=/i job-name=/J licenses=/L mail-type= mail-user= "
    "mcs-label= mem= mem-bind= mem-per-cpu= mem-per-gpu= mincpus= network= nice? no-container-mount-home no-kill?/k "
    "nodefile=/F nodelist=/w nodes=/N ntasks=/n ntasks-per-core= ntasks-per-gpu= ntasks-per-node= ntasks-per-socket= "
    "open-mode= output=/o overcommit/O oversubscribe/s partition=/p power= prefer= priority= profile= propagate? "
    "qos=/q quiet/Q reboot reservation= segment= signal= sockets-per-node= spread-job switches= tasks-per-node= "
    "thread-spec= threads-per-core= time=/t time-min= tmp= tres-bind= tres-per-task= uid= usage use-min-nodes "
    "verbose/v version/V wckey=";
constexpr std::string_view kSbatch =
    "array=/a batch= clusters=/M export-file= ignore-pbs kill-on-invalid-dep= no-requeue parsable requeue stepmgr "
    "test-only wait/W wait-all-nodes= wrap=";
constexpr std::string_view kSrun =
    "accel-bind= bcast? cpu-bind= cpu_bind= epilog= exact gpu-visibility= het-group= immediate?/I jobid= "
    "kill-on-bad-exit?/K label/l mpi= msg-timeout= multi-prog no-allocate/Z overlap prolog= preserve-env/E pty? "
    "relative=/r resv-ports? slurmd-debug= task-epilog= task-prolog= threads=/T unbuffered/u wait=/W whole x11?";

struct Known {
  std::string name;
  char kind = ' ';  ///< '=', '?' or ' '
  char letter = '\0';
};

std::vector<Known> options_of(SlurmCommand command) {
  std::vector<Known> all;
  for (const auto list : {kBoth, command == SlurmCommand::kSbatch ? kSbatch : kSrun}) {
    for (const auto item : split(list, ' ')) {
      Known known;
      std::string_view name = item.substr(0, item.find('/'));
      if (name.size() < item.size()) known.letter = item.back();
      if (name.ends_with('=') || name.ends_with('?')) {
        known.kind = name.back();
        name.remove_suffix(1);
      }
      known.name = name;
      all.push_back(known);
    }
  }
  return all;
}

/// Returns the option `name`, or the only option whose name begins with `name`; else null.
const Known* find_long(const std::vector<Known>& all, const std::string& name) {
  const auto exact = std::ranges::find(all, name, &Known::name);
  if (exact != all.end()) return &*exact;
  const auto begins = [&](const Known& known) { return known.name.starts_with(name); };
  return std::ranges::count_if(all, begins) == 1 ? &*std::ranges::find_if(all, begins) : nullptr;
}

/// What is wrong with an unknown option; no value if a plugin may know it.
std::optional<LineFinding> unknown(int line, const std::string& word, const std::vector<Known>& all) {
  const std::string what = "there is no option " + word;
  if (!word.starts_with("--")) return LineFinding{line, what, "sbatch --help lists all"};
  Words names;
  for (const auto& known : all) names.push_back(known.name);
  const auto near = nearest_name(word.substr(2), names);
  return near && near->front() == word[2] ? std::optional(LineFinding{line, what, "did you mean --" + *near + "?"})
                                          : std::nullopt;
}

struct Form {
  const char* names;
  const char* pattern;
  const char* what;
};
constexpr Form kForms[] = {
    {"nodes", "[1-9][0-9]*(-[0-9]+)?|[1-9][0-9]*[km]|[0-9]+([-,:][0-9]+)+", "a number of nodes such as 2 or 2-4"},
    {"ntasks ntasks-per-node ntasks-per-socket ntasks-per-core ntasks-per-gpu cpus-per-task cpus-per-gpu mincpus "
     "cores-per-socket sockets-per-node threads-per-core",
     "0*[1-9][0-9]*", "a whole number, at least 1"},
    {"time time-min", "([0-9]+-)?[0-9]+(:[0-9]+){0,2}|[0-9]+-|-1|UNLIMITED|INFINITE",
     "a time: MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS, DAYS-HOURS, DAYS-HOURS:MINUTES[:SECONDS]"},
    {"mem mem-per-cpu mem-per-gpu tmp", "[0-9]+([KMGT]B?)?", "a size such as 64G"},
    {"gpus gpus-per-node gpus-per-task gpus-per-socket", "(([a-z0-9_.-]+:)?[0-9]+|[a-z][^:,]*)(,[^,]+)*",
     "[TYPE:]NUMBER"},
    {"signal",
     "([RB]+:)?([1-9][0-9]*|(SIG)?(HUP|INT|QUIT|ABRT|KILL|ALRM|TERM|USR1|USR2|URG|CONT|STOP|TSTP|TTIN|TTOU|XCPU))"
     "(@[0-9]*)?",
     "[B:]SIGNAL[@SECONDS] such as USR1@60"},
    {"open-mode", "a(ppend)?|t(runcate)?", "append or truncate"},
    {"exclusive", "user|mcs|topo|exclusive", "user, mcs or topo, or no value"},
    {"gres", "[^:,(]+(:[^:,(]+){0,2}([(][^)]*[)])?(,[^:,(]+(:[^:,(]+){0,2}([(][^)]*[)])?)*", "NAME[:TYPE][:NUMBER]"},
    {"hint", "((compute_bound|memory_bound|(no)?multithread|help),?)+",
     "compute_bound, memory_bound or [no]multithread"},
    {"switches", "0*[1-9][0-9]*(@.+)?", "NUMBER[@TIME]"},
};

bool has_form(const Form& form, const std::string& value) {
  constexpr std::size_t kLongest = 1000;  // std::regex needs stack in proportion to the text
  return value.size() <= kLongest &&
         std::regex_match(value, std::regex(form.pattern, std::regex::extended | std::regex::icase));
}

/// "4-2"
bool is_empty_range(const std::string& value) {
  const auto ends = split(value, '-');
  const auto first = parse_number<std::int64_t>(ends.front());
  const auto last = parse_number<std::int64_t>(ends.back());
  return first && last && *first > *last;
}

}  // namespace

LineFinding finding_of(int line, const std::string& text) {
  const std::size_t end = text.find("; ");
  return {line, text.substr(0, end), end == std::string::npos ? "correct the command" : text.substr(end + 2)};
}

std::vector<SlurmOption> take_options(SlurmCommand command, Words& words, int line, LineFindings& findings) {
  const auto all = options_of(command);
  std::vector<SlurmOption> options;
  std::size_t i = 0;
  for (; i < words.size() && words[i].size() > 1 && words[i][0] == '-' && words[i] != "--"; ++i) {
    const bool is_long = words[i].starts_with("--");
    const std::size_t equals = is_long ? words[i].find('=') : std::string::npos;
    const bool is_text = static_cast<unsigned char>(words[i][1]) >= 0x80;  // a dash of a text editor
    const std::string name = words[i].substr(0, is_text ? std::string::npos : is_long ? equals : 2);
    const auto by_letter = std::ranges::find(all, words[i][1], &Known::letter);
    const Known* known = is_long ? find_long(all, name.substr(2)) : by_letter == all.end() ? nullptr : &*by_letter;
    if (known == nullptr) {
      const auto finding = command == SlurmCommand::kSbatch ? unknown(line, name, all) : std::nullopt;
      if (finding) findings.push_back(*finding);
      options.push_back({line, name, "", false});
      continue;
    }
    SlurmOption option{line, known->name == "tasks-per-node" ? "ntasks-per-node" : known->name, ""};
    if (!is_long && known->kind == ' ' && words[i].size() > 2) {  // -lK is -l -K
      options.push_back(option);
      words[i--].erase(1, 1);
      continue;
    }
    const bool is_attached = is_long ? equals != std::string::npos : known->kind != ' ' && words[i].size() > 2;
    if (is_long && is_attached && known->kind == ' ') {
      findings.push_back({line, name + " takes no value", "write " + name});
    } else if (is_attached) {
      option.value = words[i].substr(is_long ? equals + 1 : 2);
    } else if (known->kind == '=' && i + 1 < words.size()) {
      option.value = words[++i];
    } else if (known->kind == '=') {
      findings.push_back({line, name + " has no value", "give it one, or remove the option"});
    }
    options.push_back(option);
  }
  if (i < words.size() && words[i] == "--") ++i;
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i));
  return options;
}

std::optional<std::string> last_value(const std::vector<SlurmOption>& options, const std::string& name) {
  const auto found =
      std::find_if(options.rbegin(), options.rend(), [&](const auto& option) { return option.name == name; });
  return found == options.rend() ? std::nullopt : std::optional(found->value);
}

std::optional<std::int64_t> last_number(const std::vector<SlurmOption>& options, const std::string& name) {
  return parse_number<std::int64_t>(last_value(options, name).value_or(""));
}

bool has_unknown(const std::vector<SlurmOption>& options) {
  return std::ranges::any_of(options, [](const SlurmOption& option) { return !option.is_known; });
}

LineFindings check_values(const std::vector<SlurmOption>& options) {
  LineFindings findings;
  for (const auto& [line, name, value, is_known_option] : options) {
    if (value.empty() || !is_known(value)) continue;
    for (const auto& form : kForms) {
      const auto names = split(form.names, ' ');
      if (std::ranges::find(names, name) == names.end()) continue;
      if (has_form(form, value) && !(name == "nodes" && is_empty_range(value))) continue;
      findings.push_back({line, "--" + name + " is \"" + value + "\"", std::string("give ") + form.what});
    }
  }
  return findings;
}

std::int64_t gpu_count(const std::string& text) {
  const std::string_view items = std::string_view(text).substr(0, text.find('('));  // "gpu:4(S:0-1)" names sockets
  std::int64_t sum = 0;
  for (const auto item : split(items, ',')) sum += parse_number<std::int64_t>(split(item, ':').back()).value_or(1);
  return sum;
}

}  // namespace mn::launcher

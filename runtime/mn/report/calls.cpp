#include <mn/report/calls.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A line of a rank's file.
struct Call {
  std::string name;
  std::int64_t record;
  std::int64_t number;  ///< number of the collective call in its communicator; 0: a message
  std::int64_t count;
  std::string dtype;
  std::int64_t peer;
  std::int64_t started_us;
  bool running;
};

/// A communicator, called a group here. The records identify a group by two numbers, leader and ordinal (GroupName).
using Group = std::pair<std::int64_t, std::int64_t>;

struct Member {
  std::int64_t job_rank = 0;  ///< rank in MPI_COMM_WORLD
  std::vector<Call> calls;    ///< in the order of the records
};

struct Job {
  std::int64_t size = 0;
  std::int64_t written_us = 0;                            ///< time of the latest record
  std::map<std::int64_t, std::string> hosts;              ///< host names, by rank in MPI_COMM_WORLD
  std::map<Group, std::map<std::int64_t, Member>> ranks;  ///< by rank within the group
  std::map<Group, std::int64_t> sizes;
};

void read_rank(const fs::path& path, Job& job) {
  InText lines(read_file(path));
  std::int64_t rank = -1;
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = path.string() + ", line " + std::to_string(++number);
    if (lines.eof()) break;  // a last line without an end was cut off when the process ended
    const json each = parse_json(line, where);
    read_json(where, [&] {
      if (rank < 0) {
        rank = whole_number<std::int64_t>(each.at("rank"));
        job.size = std::max(job.size, whole_number<std::int64_t>(each.at("size")));
        job.written_us = std::max(job.written_us, whole_number<std::int64_t>(each.at("written_us")));
        job.hosts[rank] = each.at("host").get<std::string>();
        return;
      }
      const auto whole = [&](const char* key) { return whole_number<std::int64_t>(each.at(key)); };
      const Group group{whole("leader"), whole("ordinal")};
      job.sizes[group] = whole("size");
      Member& member = job.ranks[group][whole("rank")];
      member.job_rank = rank;
      member.calls.push_back({each.at("call").get<std::string>(), whole("record"), whole("number"), whole("count"),
                              each.at("dtype").get<std::string>(), whole("peer"), whole("started_us"),
                              each.at("state") == "running"});
    });
  }
}

Job read_job(fs::path folder) {
  if (fs::is_directory(folder / "calls")) folder /= "calls";
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".jsonl")) files.push_back(entry.path());
  }
  if (files.empty()) {
    throw DataError(folder.string() +
                    " holds no rank-*.jsonl: a job writes its last calls there when it ends badly, or on SIGUSR2");
  }
  Job job;
  for (const fs::path& file : files) read_rank(file, job);
  if (job.hosts.empty())
    throw DataError("all files in " + folder.string() + " are empty: no rank could write its calls");
  for (auto& [group, members] : job.ranks) {
    for (auto& [rank, member] : members) std::ranges::sort(member.calls, {}, &Call::record);
  }
  return job;
}

std::string described(const Call& call) {
  std::string text = call.name;
  if (call.number > 0) text += " (call " + std::to_string(call.number);
  if (call.number == 0)
    text += " (a message" + (call.peer < 0 ? "" : ", the other side is its rank " + std::to_string(call.peer));
  if (call.count > 0) text += ", " + std::to_string(call.count) + " " + call.dtype;
  return text + ")";
}

std::string seconds(std::int64_t microseconds) {
  const std::int64_t tenths = std::max<std::int64_t>(microseconds, 0) / 100'000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::string listed(const std::vector<std::int64_t>& ranks) {
  constexpr std::size_t kMaxListed = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const auto shown = std::span(ranks).first(std::min(ranks.size(), kMaxListed));
  text += join(shown);
  return ranks.size() > kMaxListed ? text + " and " + std::to_string(ranks.size() - kMaxListed) + " more" : text;
}

/// A rank has not entered a call of its group. Describes what the rank does instead.
std::string instead(const Job& job, const Member& member) {
  for (const auto& [group, members] : job.ranks) {
    for (const auto& [rank, other] : members) {
      if (other.job_rank != member.job_rank) continue;
      const auto running = std::ranges::find_if(other.calls, &Call::running);
      if (running != other.calls.end()) return "it is in " + described(*running);
    }
  }
  return member.calls.empty() ? "it has made no call"
                              : "its last call, " + described(member.calls.back()) + ", has ended";
}

std::int64_t last_number(const Member& member) {
  std::int64_t last = 0;
  for (const Call& call : member.calls) last = std::max(last, call.number);
  return last;
}

/// Describes the collective call `number` of a group: which ranks wait in the call, and which ranks are missing.
std::string describe(const Job& job, const Group& group, std::int64_t number) {
  std::map<std::string, std::vector<std::int64_t>> waiting;  // waiting ranks, by the text of their call
  std::map<std::string, std::vector<std::int64_t>> lacking;  // missing ranks, by the text of what they do instead
  std::vector<std::int64_t> gone;
  std::int64_t since = job.written_us;
  const auto& members = job.ranks.at(group);
  for (std::int64_t rank = 0; rank < job.sizes.at(group); ++rank) {
    const auto member = members.find(rank);
    if (member == members.end()) {
      gone.push_back(rank);
      continue;
    }
    const auto call = std::ranges::find(member->second.calls, number, &Call::number);
    if (call == member->second.calls.end()) {
      if (last_number(member->second) > number) continue;  // the call has ended; a later call has its record
      lacking[instead(job, member->second)].push_back(member->second.job_rank);
    } else if (call->running) {
      waiting[described(*call)].push_back(member->second.job_rank);
      since = std::min(since, call->started_us);
    }
  }
  std::string text;
  for (const auto& [call, ranks] : waiting) {
    text += (text.empty() ? "" : "; ") + listed(ranks) + (ranks.size() == 1 ? " waits in " : " wait in ") + call;
  }
  text += " for " + seconds(job.written_us - since);
  for (const auto& [what, ranks] : lacking) {
    text += "; " + listed(ranks) + (ranks.size() == 1 ? " lacks it: " : " lack it: ") + what;
  }
  if (!gone.empty()) {
    text += "; " + listed(gone) + " of its " + std::to_string(job.sizes.at(group)) + " left no record";
  }
  if (lacking.empty() && gone.empty() && waiting.size() == 1) text += "; no rank lacks it";
  return text + "\n";
}

}  // namespace

std::string describe_calls(const fs::path& folder) {
  const Job job = read_job(folder);
  std::string text;
  for (const auto& [group, members] : job.ranks) {
    std::set<std::int64_t> numbers;
    for (const auto& [rank, member] : members) {
      for (const Call& call : member.calls) {
        if (!call.running) continue;
        if (call.number > 0) {
          numbers.insert(call.number);
        } else {
          text += listed({member.job_rank}) + " waits in " + described(call) + " for " +
                  seconds(job.written_us - call.started_us) + "\n";
        }
      }
    }
    for (const std::int64_t number : numbers) text += describe(job, group, number);
  }
  if (!text.empty()) return text;
  std::vector<std::int64_t> gone;
  for (std::int64_t rank = 0; rank < job.size; ++rank) {
    if (!job.hosts.contains(rank)) gone.push_back(rank);
  }
  return "no rank is in a call" + (gone.empty() ? "" : "; " + listed(gone) + " left no record") + "\n";
}

}  // namespace mn

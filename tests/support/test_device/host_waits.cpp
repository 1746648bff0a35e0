#include "tests/support/test_device/host_waits.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <utility>

#include <execinfo.h>
#include <link.h>
#include <unistd.h>

#include "tests/support/stand_in_gpu/host_waits.hpp"

namespace mn::test_device {
namespace {

constexpr std::size_t kMaxFrames = 100;
constexpr std::size_t kMaxShown = 6;

using Addresses = std::vector<std::uintptr_t>;  // within the program's file
using Key = std::pair<std::string, Addresses>;

struct Counts {
  std::mutex mutex;
  std::map<Key, std::int64_t> times;
};

Counts& counts() {
  static auto& all = *new Counts;
  return all;
}

/// Where the program's own code lies in memory.
struct Program {
  std::uintptr_t base = 0, end = 0;
};

const Program& program() {
  static const Program found = [] {
    Program own;
    const auto first = [](dl_phdr_info* info, std::size_t, void* to) {
      auto& here = *static_cast<Program*>(to);
      here.base = info->dlpi_addr;
      for (int i = 0; i < info->dlpi_phnum; ++i) {
        here.end = std::max(here.end, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
      }
      return 1;  // the program comes first
    };
    dl_iterate_phdr(first, &own);
    return own;
  }();
  return found;
}

void observe(const char* call) {
  std::array<void*, kMaxFrames> frames;
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  Addresses own;
  for (int i = 0; i < depth; ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(frames[static_cast<std::size_t>(i)]);
    if (address >= program().base && address < program().end) own.push_back(address - program().base - 1);
  }
  const std::lock_guard lock(counts().mutex);
  ++counts().times[{call, std::move(own)}];
}

bool is_question(const std::string& call) { return call.ends_with("Query"); }

/// "ns::(anonymous namespace)::f(int) const" → "ns::f"; the stand-in and the test device are not of interest.
std::string short_name(std::string name) {
  const std::string anonymous = "(anonymous namespace)::";
  for (std::size_t at; (at = name.find(anonymous)) != std::string::npos;) name.erase(at, anonymous.size());
  return name.substr(0, name.find('('));
}

bool is_of_interest(const std::string& name) {
  return name.find("mn::") == 0 && name.find("mn::stand_in") != 0 && name.find("mn::test_device") != 0;
}

std::vector<std::string> names_of(const Addresses& addresses) {
  std::ostringstream command;
  command << "addr2line -f -C -e /proc/" << getpid() << "/exe" << std::hex;
  for (const std::uintptr_t address : addresses) command << " 0x" << address;
  const std::unique_ptr<FILE, int (*)(FILE*)> out(popen(command.str().c_str(), "r"), pclose);
  std::vector<std::string> names;
  std::array<char, 4096> line;
  for (int i = 0; out && std::fgets(line.data(), line.size(), out.get()) != nullptr; ++i) {
    const std::string name = short_name(line.data());
    const bool is_name = i % 2 == 0;  // then its file and line
    if (is_name && is_of_interest(name) && (names.empty() || names.back() != name)) names.push_back(name);
  }
  return names;
}

}  // namespace

HostWaits::HostWaits() {
  std::array<void*, 1> frame;
  backtrace(frame.data(), 1);  // loads what it needs now
  counts().times.clear();
  stand_in::observe_host_waits(observe);
}

HostWaits::~HostWaits() { stand_in::observe_host_waits(nullptr); }

std::int64_t HostWaits::count() const {
  const std::lock_guard lock(counts().mutex);
  std::int64_t sum = 0;
  for (const auto& [key, times] : counts().times) sum += is_question(key.first) ? 0 : times;
  return sum;
}

std::vector<HostWaits::Place> HostWaits::places() const {
  const std::lock_guard lock(counts().mutex);
  std::map<std::pair<std::string, std::vector<std::string>>, std::int64_t> by_name;
  for (const auto& [key, times] : counts().times) by_name[{key.first, names_of(key.second)}] += times;
  std::vector<Place> all;
  for (const auto& [key, times] : by_name) all.push_back({key.first, times, key.second});
  std::ranges::stable_sort(all, [](const Place& a, const Place& b) { return a.times > b.times; });
  return all;
}

std::string HostWaits::table(std::int64_t steps) const {
  std::ostringstream text;
  for (const Place& place : places()) {
    text << static_cast<double>(place.times) / static_cast<double>(steps) << "  " << place.call;
    for (std::size_t i = 0; i < std::min(place.callers.size(), kMaxShown); ++i) text << " < " << place.callers[i];
    text << '\n';
  }
  return text.str();
}

}  // namespace mn::test_device

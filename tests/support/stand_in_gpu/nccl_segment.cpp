#include "tests/support/stand_in_gpu/nccl_segment.hpp"

#include <map>
#include <mutex>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace mn::stand_in {
namespace {

constexpr std::size_t kAlignment = 4096;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct Files {
  std::mutex mutex;
  std::map<std::string, int> by_name;
};
Files& files() {
  static auto& all = *new Files;
  return all;
}

std::string type_name(int type) {
  constexpr const char* kNames[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                    "uint64", "float16", "float32", "float64", "bfloat16"};
  return type >= 0 && type <= ncclBfloat16 ? kNames[type] : "type " + std::to_string(type);
}

std::string op_name(int op) {
  constexpr const char* kNames[] = {"sum", "prod", "max", "min"};
  return kNames[op];
}

}  // namespace

std::string Call::text() const {
  std::string words = "operation " + std::to_string(number) + ", " + name + " of " + std::to_string(count);
  if (type != kNone) words += " " + type_name(type);
  if (op != kNone) words += ", " + op_name(op);
  if (root != kNone) words += ", root " + std::to_string(root);
  return words;
}

std::string new_segment() {
  const int file = memfd_create("stand_in_gpu", MFD_CLOEXEC);
  if (file < 0) return {};
  const std::string name = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file);
  const std::lock_guard lock(files().mutex);
  files().by_name[name] = file;
  return name;
}

void forget_segment(const std::string& name) {
  const std::lock_guard lock(files().mutex);
  const auto found = files().by_name.find(name);
  if (found == files().by_name.end()) return;
  close(found->second);
  files().by_name.erase(found);
}

Segment::Segment(const std::string& name, int ranks) : ranks_(static_cast<std::size_t>(ranks)) {
  slots_ = aligned(sizeof(Header));
  mails_ = slots_ + aligned(ranks_ * sizeof(Slot));
  areas_ = mails_ + aligned(ranks_ * ranks_ * sizeof(Mail));
  bytes_ = areas_ + ranks_ * kPieceBytes;
  const int file = open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  if (ftruncate(file, static_cast<off_t>(bytes_)) == 0) {
    void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) memory_ = static_cast<std::byte*>(memory);
  }
  close(file);
}

Segment::~Segment() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

// The file's bytes are 0 at first, which every member takes for its first value but for those that a rank writes before
// others read them.

std::atomic<std::uint32_t>& Segment::here() { return reinterpret_cast<Header*>(at(0))->here; }
std::atomic<std::uint32_t>& Segment::round() { return reinterpret_cast<Header*>(at(0))->round; }
Slot& Segment::slot(int rank) { return reinterpret_cast<Slot*>(at(slots_))[rank]; }
Mail& Segment::mail(int from, int to) {
  return reinterpret_cast<Mail*>(at(mails_))[static_cast<std::size_t>(from) * ranks_ + static_cast<std::size_t>(to)];
}
std::byte* Segment::area(int rank) { return at(areas_ + static_cast<std::size_t>(rank) * kPieceBytes); }

}  // namespace mn::stand_in

#include <mn/job/end_note.hpp>

#include <exception>
#include <mutex>
#include <utility>

namespace mn {
namespace {

struct EndNote {
  std::mutex mutex;
  std::function<void(const std::string&)> write;
};

/// Never destroyed: exit() may call write_end_note() after it has destroyed static objects.
EndNote& end_note() {
  static auto* const note = new EndNote;
  return *note;
}

}  // namespace

void set_end_note(std::function<void(const std::string& why)> write) {
  const std::scoped_lock lock(end_note().mutex);
  end_note().write = std::move(write);
}

void write_end_note(const std::string& why) noexcept {
  try {
    const std::scoped_lock lock(end_note().mutex);
    if (const auto write = std::exchange(end_note().write, {})) write(why);
  } catch (const std::exception&) {
  }
}

}  // namespace mn

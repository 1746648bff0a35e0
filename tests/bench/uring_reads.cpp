// uring_reads FOLDER BYTES DEPTH: reads a folder's files in pieces of so many bytes, in random order, DEPTH at a time:
// by DEPTH threads that call pread, as datasets do (ReadPool), and by one io_uring. The files are dropped from the page
// cache before each. Prints MB/s and the CPU time of both. Where the kernel has no io_uring: status 77.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mn/core/fd.hpp>
#include <mn/core/random.hpp>
#include <mn/data/read_pool.hpp>

namespace {

struct Piece {
  int file;
  std::uint64_t offset;
};

/// A ring of reads, without a library.
class Ring {
 public:
  explicit Ring(unsigned depth) {
    io_uring_params facts = {};
    ring_ = mn::Fd(static_cast<int>(syscall(__NR_io_uring_setup, depth, &facts)));
    if (!ring_) throw std::runtime_error("io_uring_setup: " + std::string(std::strerror(errno)));
    const std::size_t bytes = std::max<std::size_t>(facts.sq_off.array + facts.sq_entries * sizeof(unsigned),
                                                    facts.cq_off.cqes + facts.cq_entries * sizeof(io_uring_cqe));
    auto* shared = static_cast<std::byte*>(map(bytes, IORING_OFF_SQ_RING));  // IORING_FEAT_SINGLE_MMAP
    entries_ = static_cast<io_uring_sqe*>(map(facts.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
    tail_ = reinterpret_cast<unsigned*>(shared + facts.sq_off.tail);
    mask_ = *reinterpret_cast<unsigned*>(shared + facts.sq_off.ring_mask);
    array_ = reinterpret_cast<unsigned*>(shared + facts.sq_off.array);
    done_head_ = reinterpret_cast<unsigned*>(shared + facts.cq_off.head);
    done_tail_ = reinterpret_cast<unsigned*>(shared + facts.cq_off.tail);
    done_mask_ = *reinterpret_cast<unsigned*>(shared + facts.cq_off.ring_mask);
    done_ = reinterpret_cast<io_uring_cqe*>(shared + facts.cq_off.cqes);
  }

  void add(const Piece& piece, void* to, unsigned bytes, std::uint64_t slot) {
    const unsigned at = *tail_ & mask_;
    entries_[at] = {};
    entries_[at].opcode = IORING_OP_READ;
    entries_[at].fd = piece.file;
    entries_[at].off = piece.offset;
    entries_[at].addr = reinterpret_cast<std::uint64_t>(to);
    entries_[at].len = bytes;
    entries_[at].user_data = slot;
    array_[at] = at;
    std::atomic_ref(*tail_).store(*tail_ + 1, std::memory_order_release);
    ++added_;
  }
  /// Submits what was added, and waits for one read at least; use(slot) of those that have ended.
  template <class Use>
  void wait(unsigned bytes, const Use& use) {
    syscall(__NR_io_uring_enter, ring_.get(), added_, 1U, IORING_ENTER_GETEVENTS, nullptr, std::size_t{0});
    added_ = 0;
    while (*done_head_ != std::atomic_ref(*done_tail_).load(std::memory_order_acquire)) {
      const io_uring_cqe one = done_[*done_head_ & done_mask_];
      std::atomic_ref(*done_head_).store(*done_head_ + 1, std::memory_order_release);
      if (one.res != static_cast<int>(bytes)) throw std::runtime_error("a read failed or was short");
      use(one.user_data);
    }
  }

 private:
  [[nodiscard]] void* map(std::size_t bytes, std::uint64_t what) const {
    void* mapped =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring_.get(), static_cast<off_t>(what));
    if (mapped == MAP_FAILED) throw std::runtime_error("cannot map an io_uring");
    return mapped;
  }

  mn::Fd ring_;
  io_uring_sqe* entries_ = nullptr;
  unsigned *tail_ = nullptr, *array_ = nullptr, *done_head_ = nullptr, *done_tail_ = nullptr;
  io_uring_cqe* done_ = nullptr;
  unsigned mask_ = 0, done_mask_ = 0, added_ = 0;
};

void read_by_ring(const std::vector<Piece>& pieces, unsigned bytes, unsigned depth) {
  Ring ring(depth);
  std::vector<std::vector<std::byte>> rooms(depth, std::vector<std::byte>(bytes));
  std::size_t next = 0, left = pieces.size();
  const auto add = [&](std::uint64_t slot) {
    if (next < pieces.size()) ring.add(pieces[next++], rooms[slot].data(), bytes, slot);
  };
  for (unsigned slot = 0; slot < depth; ++slot) add(slot);
  while (left > 0) {
    ring.wait(bytes, [&](std::uint64_t slot) {
      --left;
      add(slot);
    });
  }
}

void read_by_pool(const std::vector<Piece>& pieces, unsigned bytes, unsigned depth) {
  mn::data::ReadPool pool(static_cast<int>(depth));
  pool.run(pieces.size(), [&](std::size_t i) {
    thread_local std::vector<std::byte> room;
    room.resize(bytes);
    if (pread(pieces[i].file, room.data(), bytes, static_cast<off_t>(pieces[i].offset)) != bytes) std::abort();
  });
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

template <class Read>
void measure(const char* name, const std::vector<mn::Fd>& files, double bytes, const Read& read) {
  for (const mn::Fd& file : files) {
    fsync(file.get());
    posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
  const double cpu = cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  read();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%-9s %6.0f MB/s, %.2f s of CPU for each GB\n", name, bytes / took.count() / 1e6,
              (cpu_seconds() - cpu) / bytes * 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: uring_reads FOLDER BYTES DEPTH\n"), 2;
  const auto bytes = static_cast<unsigned>(std::atoi(argv[2]));
  const auto depth = static_cast<unsigned>(std::atoi(argv[3]));
  std::vector<mn::Fd> files;
  std::vector<Piece> pieces;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    files.emplace_back(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    posix_fadvise(files.back().get(), 0, 0, POSIX_FADV_RANDOM);
    for (std::uint64_t at = 0; at + bytes <= entry.file_size(); at += bytes) pieces.push_back({files.back().get(), at});
  }
  mn::SplitMix64 random(1);
  for (std::size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[random.next() % i]);
  const double all = static_cast<double>(bytes) * static_cast<double>(pieces.size());
  try {
    for (int round = 0; round < 3; ++round) {
      measure("threads", files, all, [&] { read_by_pool(pieces, bytes, depth); });
      measure("io_uring", files, all, [&] { read_by_ring(pieces, bytes, depth); });
    }
  } catch (const std::runtime_error& error) {
    return std::fprintf(stderr, "uring_reads: %s\n", error.what()), 77;
  }
  return 0;
}

#include <mn/comm/mpi/mpi.hpp>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <exception>
#include <numeric>

#include <dlfcn.h>

#include <mn/core/log.hpp>

namespace mn {
namespace {

std::atomic<std::size_t> count_limit = INT_MAX;

std::string file_name(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

Mpi with_errors_returned(Mpi owner) {
  if (owner) mpi_check(MPI_Comm_set_errhandler(owner.get(), MPI_ERRORS_RETURN), "setting MPI_ERRORS_RETURN");
  return owner;
}

class MpiType {
 public:
  explicit MpiType(MPI_Datatype type) : type_(type) {}
  ~MpiType() { MPI_Type_free(&type_); }
  MpiType(const MpiType&) = delete;
  MpiType& operator=(const MpiType&) = delete;
  [[nodiscard]] MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_;
};

MPI_Datatype contiguous(std::size_t count, MPI_Datatype base) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  mpi_check(MPI_Type_contiguous(static_cast<int>(count), base, &type), "MPI_Type_contiguous");
  return type;
}

/// Makes a derived type that spans `count` elements: blocks of `limit` elements, then the remainder.
MPI_Datatype spanning_type(std::size_t count, DType dtype, std::size_t limit) {
  const MPI_Datatype base = mpi_type(dtype);
  const std::size_t full = count / limit;
  const MpiType piece(contiguous(limit, base));
  const MpiType pieces(contiguous(full, piece.get()));
  const int lengths[] = {1, static_cast<int>(count % limit)};
  const MPI_Aint offsets[] = {0, static_cast<MPI_Aint>(full * limit * size_of(dtype))};
  const MPI_Datatype types[] = {pieces.get(), base};
  MPI_Datatype whole = MPI_DATATYPE_NULL;
  mpi_check(MPI_Type_create_struct(2, lengths, offsets, types, &whole), "MPI_Type_create_struct");
  const MpiType unsized(whole);
  MPI_Datatype sized = MPI_DATATYPE_NULL;
  // In a gather, each part begins where the previous element of this type ends: the type must have no padding.
  mpi_check(MPI_Type_create_resized(whole, 0, static_cast<MPI_Aint>(count * size_of(dtype)), &sized),
            "MPI_Type_create_resized");
  mpi_check(MPI_Type_commit(&sized), "MPI_Type_commit");
  return sized;
}

}  // namespace

void mpi_check(int code, std::string_view operation, std::size_t bytes, std::source_location where) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  // If this call fails, the error is reported without MPI's text.
  MPI_Error_string(code, text, &length);
  std::string message(operation.empty() ? std::string_view(where.function_name()) : operation);
  if (bytes > 0) message += " of " + std::to_string(bytes) + " bytes";
  message += " failed: " + std::string(text, static_cast<std::size_t>(length)) + " (" + file_name(where.file_name()) +
             ":" + std::to_string(where.line()) + ")";
  int kind = MPI_SUCCESS;
  if (MPI_Error_class(code, &kind) == MPI_SUCCESS && kind == MPI_ERR_TRUNCATE) {
    throw CallMismatch(message + ": another rank gives more elements than this one; " + kSameCalls +
                       " says which rank differs");
  }
  throw CommError(message);
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  mpi_check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  mpi_check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

// MPI allows these two queries even before MPI_Init and after MPI_Finalize.
bool mpi_is_up() noexcept {
  int up = 0;
  int down = 0;
  MPI_Initialized(&up);
  MPI_Finalized(&down);
  return up != 0 && down == 0;
}

bool mpi_takes_threads() {
  int provided = MPI_THREAD_SINGLE;
  mpi_check(MPI_Query_thread(&provided), "MPI_Query_thread");
  return provided >= MPI_THREAD_MULTIPLE;
}

Mpi Mpi::duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  mpi_check(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  return with_errors_returned(Mpi(copy));
}

Mpi Mpi::split(MPI_Comm comm, int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  mpi_check(MPI_Comm_split(comm, color < 0 ? MPI_UNDEFINED : color, key, &part), "MPI_Comm_split");
  return with_errors_returned(Mpi(part));
}

void Mpi::reset() noexcept {
  MPI_Comm comm = std::exchange(comm_, MPI_COMM_NULL);
  if (comm == MPI_COMM_NULL || !mpi_is_up() || std::uncaught_exceptions() > 0) return;
  if (MPI_Comm_free(&comm) != MPI_SUCCESS)
    log_warning("MPI_Comm_free failed; the communicator is left to MPI_Finalize");
}

std::vector<int> ranks_in(MPI_Comm group, MPI_Comm part) {
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  mpi_check(MPI_Comm_group(group, &all), "MPI_Comm_group");
  mpi_check(MPI_Comm_group(part, &some), "MPI_Comm_group");
  int size = 0;
  mpi_check(MPI_Group_size(some, &size), "MPI_Group_size");
  std::vector<int> ranks(static_cast<std::size_t>(size)), found(ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  mpi_check(MPI_Group_translate_ranks(some, size, ranks.data(), all, found.data()), "MPI_Group_translate_ranks");
  MPI_Group_free(&all);
  MPI_Group_free(&some);
  std::ranges::replace(found, MPI_UNDEFINED, -1);
  return found;
}

bool includes(MPI_Comm group, MPI_Comm part) {
  if (part == group) return true;
  const std::vector<int> found = ranks_in(group, part);
  return std::ranges::find(found, -1) == found.end();
}

bool holds_on_all_ranks(MPI_Comm comm, bool mine) {
  int all = mine ? 1 : 0;
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, comm), "comparing the ranks");
  return all != 0;
}

std::size_t mpi_count_limit() noexcept { return count_limit; }
void set_mpi_count_limit(std::size_t limit) noexcept { count_limit = limit; }

std::vector<std::string> allgather_texts(MPI_Comm comm, const std::string& text) {
  const std::uint64_t length = text.size();
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(size_of(comm)));
  mpi_check(MPI_Allgather(&length, 1, MPI_UINT64_T, lengths.data(), 1, MPI_UINT64_T, comm), "gathering texts");
  std::vector<std::string> texts(lengths.size());
  // MPI_Allgatherv takes counts and offsets as int, so each call gathers a piece of every text.
  const std::uint64_t most = std::max<std::uint64_t>(count_limit / lengths.size(), 1);
  for (std::uint64_t first = 0; first < std::ranges::max(lengths); first += most) {
    const auto piece_of = [&](std::uint64_t whole) {
      return static_cast<int>(std::min(std::max(whole, first) - first, most));
    };
    std::vector<int> counts, offsets(lengths.size());
    for (const std::uint64_t whole : lengths) counts.push_back(piece_of(whole));
    std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
    std::string all(static_cast<std::size_t>(offsets.back() + counts.back()), '\0');
    mpi_check(MPI_Allgatherv(text.data() + std::min(first, length), piece_of(length), MPI_CHAR, all.data(),
                             counts.data(), offsets.data(), MPI_CHAR, comm),
              "gathering texts", all.size());
    for (std::size_t r = 0; r < texts.size(); ++r) {
      texts[r].append(all, static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(counts[r]));
    }
  }
  return texts;
}

MPI_Datatype mpi_type(DType dtype) noexcept {
  // In the order of DType. 16-bit floats travel as MPI_UINT16_T.
  const MPI_Datatype types[] = {MPI_UINT8_T, MPI_INT32_T,  MPI_INT64_T, MPI_UINT16_T, MPI_UINT16_T,
                                MPI_FLOAT,   MPI_DOUBLE,   MPI_UINT8_T, MPI_INT8_T,   MPI_UINT64_T,
                                MPI_INT16_T, MPI_UINT16_T, MPI_UINT32_T};
  static_assert(std::size(types) == kDTypeCount);
  return types[static_cast<std::size_t>(dtype)];
}

MpiCount::MpiCount(std::size_t count, DType dtype)
    : count_(1), type_(mpi_type(dtype)), derived_(count > mpi_count_limit()) {
  if (derived_) {
    type_ = spanning_type(count, dtype, mpi_count_limit());
  } else {
    count_ = static_cast<int>(count);
  }
}

MpiCount::~MpiCount() {
  if (derived_) MPI_Type_free(&type_);
}

bool mpi_is_cuda_aware() noexcept {
  using Query = int (*)();
  const auto query = reinterpret_cast<Query>(dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"));
  return query != nullptr && query() == 1;
}

}  // namespace mn

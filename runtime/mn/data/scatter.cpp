// Divides a dataset between ranks: as a table that each can read by itself, else as samples from the root's memory.
//
// Every rank calls scatter_dataset at once. The root broadcasts what it knows of the dataset, or its error (1
// broadcast).
//   shards: the facts include the shard table; the ranks compare its hash (1 allreduce). No sample is sent.
//   memory: the root sends each rank its part in pieces (a header and three messages each), an end mark, and then
//           broadcasts the outcome with the sample's spec.
//
// (1) Every rank throws the same error, or none does: an error on the root travels in the next broadcast.
// (2) After an error in the middle the root still sends every end mark, so no rank is left in a receive.
// (3) A piece has at most 64 MiB of fixed samples, so neither side holds the whole dataset twice.
// (4) A CommError leaves at once: the communicator is of no use any more.
//
// Cost: the table is about 100 bytes a shard; from memory, each sample is sent once, to the one rank that uses it.
#include <algorithm>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/scatter.hpp>

namespace mn {
namespace {

using nlohmann::json;

constexpr std::int64_t kPieceBytes = std::int64_t{64} << 20;  // of samples in one message
constexpr int kTag = 7101;

/// What went wrong on root, as the others must throw it.
json failure(const Error& error) {
  return {{"error", error.what()}, {"usage", error.exit_code() == UsageError("").exit_code()}};
}

void throw_if_failed(const json& message) {
  if (!message.contains("error")) return;
  if (message.at("usage").get<bool>()) throw UsageError(message.at("error").get<std::string>());
  throw DataError(message.at("error").get<std::string>(), true);
}

/// What root knows of the dataset, or what went wrong there; the same on every rank.
json agree(const Dataset* dataset, Communicator& comm, int root) {
  json facts;
  if (comm.rank() == root) {
    try {
      if (dataset == nullptr)
        throw UsageError("scatter_dataset got no dataset on its root, rank " + std::to_string(root));
      const std::string table = dataset->table();
      facts = {{"samples", dataset->size()},
               {"fingerprint", dataset->fingerprint()},
               {"table", json::binary({table.begin(), table.end()})}};
    } catch (const Error& error) {
      facts = failure(error);
    }
  }
  facts = comm.bcast_obj(facts, root);
  throw_if_failed(facts);
  return facts;
}

/// Throws on every rank unless all hold the same number.
void check_equal(std::uint64_t hash, Communicator& comm) {
  if (!same_on_all_ranks(hash, comm)) {
    throw DataError("the ranks do not hold the same shard table: do all nodes run the same build of this program?",
                    true);
  }
}

std::shared_ptr<const Dataset> share_table(const std::shared_ptr<Dataset>& dataset, const json& facts,
                                           Communicator& comm, int root) {
  const auto& bytes = facts.at("table").get_binary();
  std::shared_ptr<const Dataset> mine =
      comm.rank() == root ? dataset : open_table(std::string(bytes.begin(), bytes.end()));
  check_equal(mine->fingerprint(), comm);
  return mine;
}

/// Sends a piece of a part: its lengths, labels and bytes.
void send_piece(const RawSamples& piece, Communicator& comm, int dest) {
  comm.send_obj(json{{"samples", piece.size()}, {"bytes", piece.bytes.size()}}, dest, kTag);
  comm.send(piece.offsets, dest, kTag);
  comm.send(piece.labels, dest, kTag);
  comm.send(piece.bytes, dest, kTag);
}

void append(RawSamples& all, const RawSamples& piece) {
  const std::int64_t begin = all.offsets.back();
  all.bytes.insert(all.bytes.end(), piece.bytes.begin(), piece.bytes.end());
  all.labels.insert(all.labels.end(), piece.labels.begin(), piece.labels.end());
  for (std::int64_t i = 1; i <= piece.size(); ++i) all.offsets.push_back(begin + piece.offsets[i]);
}

/// How many samples go into one message.
std::int64_t piece_samples(const Dataset& dataset) {
  constexpr std::int64_t kEncodedGuess = 128 << 10;
  const std::int64_t bytes = dataset.spec().kind == SampleKind::kFixed ? dataset.spec().sample_bytes() : kEncodedGuess;
  return std::max<std::int64_t>(1, kPieceBytes / std::max<std::int64_t>(bytes, 1));
}

/// Reads a part in pieces and hands each to `take`.
template <class Take>
void read_part(const Dataset& dataset, const std::vector<std::int64_t>& indices, Take take) {
  const auto step = static_cast<std::size_t>(piece_samples(dataset));
  RawSamples piece;
  for (std::size_t done = 0; done < indices.size(); done += step) {
    dataset.read(std::span(indices).subspan(done, std::min(step, indices.size() - done)), piece);
    take(piece);
  }
}

/// Root: sends every other rank its part and returns its own. An error goes into `outcome`, for all, once all parts are
/// out.
RawSamples send_parts(const Dataset& dataset, Communicator& comm, const ScatterOptions& options, json& outcome) {
  RawSamples own;
  own.offsets = {0};
  for (int rank = 0; rank < comm.size(); ++rank) {
    try {
      if (outcome.contains("error")) break;
      const auto indices = part_indices(dataset.size(), rank, comm.size(), options);
      if (rank == comm.rank()) {
        read_part(dataset, indices, [&](const RawSamples& piece) { append(own, piece); });
      } else {
        read_part(dataset, indices, [&](const RawSamples& piece) { send_piece(piece, comm, rank); });
      }
    } catch (const CommError&) {
      throw;
    } catch (const Error& error) {
      outcome = failure(error);
    }
  }
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank != comm.rank()) comm.send_obj(json{{"samples", -1}}, rank, kTag);
  }
  return own;
}

RawSamples receive_part(Communicator& comm, int root) {
  RawSamples all;
  all.offsets = {0};
  RawSamples piece;
  while (true) {
    const json header = comm.recv_json(root, kTag);
    const std::int64_t samples = header.at("samples");
    if (samples < 0) return all;
    piece.offsets.resize(samples + 1);
    piece.labels.resize(samples);
    piece.bytes.resize(header.at("bytes").get<std::size_t>());
    comm.recv(piece.offsets, root, kTag);
    comm.recv(piece.labels, root, kTag);
    comm.recv(piece.bytes, root, kTag);
    append(all, piece);
  }
}

std::shared_ptr<const Dataset> scatter_parts(const Dataset* dataset, Communicator& comm,
                                             const ScatterOptions& options) {
  const bool here = comm.rank() == options.root;
  json outcome = json::object();
  RawSamples part = here ? send_parts(*dataset, comm, options, outcome) : receive_part(comm, options.root);
  if (here && !outcome.contains("error")) outcome["spec"] = to_json(dataset->spec());
  outcome = comm.bcast_obj(outcome, options.root);
  throw_if_failed(outcome);
  return std::make_shared<MemoryDataset>(sample_spec_from_json(outcome.at("spec"), "the root's dataset"),
                                         std::move(part));
}

}  // namespace

std::pair<std::int64_t, std::int64_t> scatter_index(std::int64_t n, const Communicator& comm, bool force_equal_length) {
  return scatter_index(n, comm.rank(), comm.size(), force_equal_length);
}

std::shared_ptr<SubDataset> scatter_dataset(std::shared_ptr<Dataset> dataset, const std::shared_ptr<Communicator>& comm,
                                            const ScatterOptions& options) {
  if (options.root < 0 || options.root >= comm->size()) {
    throw ArgumentError("scatter_dataset from rank " + std::to_string(options.root) + " of " +
                        std::to_string(comm->size()));
  }
  const json facts = agree(dataset.get(), *comm, options.root);
  const std::int64_t n = facts.at("samples");
  if (!facts.at("table").get_binary().empty()) {
    return std::make_shared<SubDataset>(share_table(dataset, facts, *comm, options.root), comm->rank(), comm->size(),
                                        options);
  }
  ScatteredPart part{.samples = scatter_parts(dataset.get(), *comm, options),
                     .global_size = n,
                     .fingerprint = facts.at("fingerprint")};
  return std::make_shared<SubDataset>(std::move(part), comm->rank(), comm->size(), options);
}

}  // namespace mn

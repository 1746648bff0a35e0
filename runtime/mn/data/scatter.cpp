// Divides a dataset between ranks: as a table that each can read by itself, else as samples from the root's memory.
//
// Every rank calls scatter_dataset at once. The root broadcasts what it knows of the dataset, or its error (1
// broadcast).
//   shards: the facts include the shard table; the ranks compare its hash (1 allreduce). No sample is sent.
//   memory: the root sends each rank its part in pieces (a header and three messages each), an end mark, and then
//           broadcasts the outcome with the sample's spec.
//
// (1) Every rank throws the same error, or none does: any exception on the root travels in the next broadcast.
// (2) After an error in the middle the root still sends every end mark, so no rank is left in a receive.
// (3) A piece has about 64 MiB, or one sample, and stays where it was received: a rank holds its part once, and the
// root
//     one piece more.
// (4) A CommError leaves at once: the communicator is of no use any more.
//
// Cost: the table is about 100 bytes a shard; from memory, each sample is sent once, to the one rank that uses it.
#include <algorithm>
#include <exception>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/pieces_dataset.hpp>
#include <mn/data/scatter.hpp>

namespace mn {
namespace {

using nlohmann::json;

constexpr std::int64_t kPieceBytes = std::int64_t{64} << 20;  // of samples in one message
constexpr int kTag = 7101;

/// What work() returns; if it throws, what went wrong, as every rank must throw it.
template <class Work>
json outcome_of(const Work& work) {
  try {
    return work();
  } catch (const CommError&) {
    throw;
  } catch (const Error& error) {
    return {{"error", error.what()}, {"usage", error.exit_code() == UsageError("").exit_code()}};
  } catch (const std::bad_alloc&) {
    return {{"error", "the root of scatter_dataset has not enough memory to read the dataset"}, {"usage", false}};
  } catch (const std::exception& error) {
    return {{"error", std::string("reading the dataset on the root of scatter_dataset failed: ") + error.what()},
            {"usage", false}};
  }
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
    facts = outcome_of([&]() -> json {
      if (dataset == nullptr)
        throw UsageError("scatter_dataset got no dataset on its root, rank " + std::to_string(root));
      const std::string table = dataset->table();
      return {{"samples", dataset->size()},
              {"fingerprint", dataset->fingerprint()},
              {"table", json::binary({table.begin(), table.end()})}};
    });
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
  const std::shared_ptr<Dataset> mine =
      comm.rank() == root ? dataset : open_table(std::string(bytes.begin(), bytes.end()));
  check_equal(mine->fingerprint(), comm);
  mine->share(comm.size());
  return mine;
}

/// Sends a piece of a part: its lengths, labels and bytes.
void send_piece(const RawSamples& piece, Communicator& comm, int dest) {
  comm.send_obj(json{{"samples", piece.size()}, {"bytes", piece.bytes.size()}}, dest, kTag);
  comm.send(piece.offsets, dest, kTag);
  comm.send(piece.labels, dest, kTag);
  comm.send(piece.bytes, dest, kTag);
}

/// Reads a part in pieces and hands each to `take`.
template <class Take>
void read_part(const Dataset& dataset, const std::vector<std::int64_t>& indices, Take take) {
  constexpr std::int64_t kFirst = 16;  // samples of the first piece, which tells how large encoded ones are
  const bool fixed = dataset.spec().kind == SampleKind::kFixed;
  std::int64_t step = fixed ? kPieceBytes / std::max<std::int64_t>(dataset.spec().sample_bytes(), 1) : kFirst;
  RawSamples piece;
  for (std::size_t done = 0; done < indices.size();) {
    const auto samples = static_cast<std::size_t>(std::max<std::int64_t>(step, 1));
    const auto some = std::span(indices).subspan(done, std::min(samples, indices.size() - done));
    dataset.read(some, piece);
    done += some.size();
    if (!fixed) step = kPieceBytes * piece.size() / std::max<std::int64_t>(piece.offsets.back(), 1);
    take(piece);
  }
}

/// Root: sends every other rank its part, and keeps its own in `own`. Returns what the others must know then.
json send_parts(const Dataset& dataset, Communicator& comm, const ScatterOptions& options,
                std::vector<RawSamples>& own) {
  json outcome = outcome_of([&]() -> json {
    for (int rank = 0; rank < comm.size(); ++rank) {
      read_part(dataset, part_indices(dataset.size(), rank, comm.size(), options), [&](RawSamples& piece) {
        if (rank == comm.rank()) {
          own.push_back(std::exchange(piece, {}));
        } else {
          send_piece(piece, comm, rank);
        }
      });
    }
    return {{"spec", to_json(dataset.spec())}};
  });
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank != comm.rank()) comm.send_obj(json{{"samples", -1}}, rank, kTag);
  }
  return outcome;
}

std::vector<RawSamples> receive_part(Communicator& comm, int root) {
  std::vector<RawSamples> pieces;
  while (true) {
    const json header = comm.recv_json(root, kTag);
    const std::int64_t samples = header.at("samples");
    if (samples < 0) return pieces;
    RawSamples& piece = pieces.emplace_back();
    piece.offsets.resize(samples + 1);
    piece.labels.resize(samples);
    piece.bytes.resize(header.at("bytes").get<std::size_t>());
    comm.recv(piece.offsets, root, kTag);
    comm.recv(piece.labels, root, kTag);
    comm.recv(piece.bytes, root, kTag);
  }
}

std::shared_ptr<const Dataset> scatter_parts(const Dataset* dataset, Communicator& comm,
                                             const ScatterOptions& options) {
  json outcome;
  std::vector<RawSamples> part;
  if (comm.rank() == options.root) {
    outcome = send_parts(*dataset, comm, options, part);
  } else {
    part = receive_part(comm, options.root);
  }
  outcome = comm.bcast_obj(outcome, options.root);
  throw_if_failed(outcome);
  return std::make_shared<PiecesDataset>(sample_spec_from_json(outcome.at("spec"), "the root's dataset"),
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

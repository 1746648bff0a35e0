// Divides a dataset between ranks. Either the root sends a table, with which each rank opens the dataset, or the root
// sends samples from its memory.
//
// The root broadcasts facts about the dataset, or its error (1 broadcast).
//   table:  the facts include the table and its format. Each rank opens the table; ranks with a user's opener exchange
//           the outcome (1 allgather). All ranks compare a hash of the data (1 allreduce). No sample is sent.
//   memory: the facts include the samples' spec; the root sends each rank its part in pieces (a header and one or two
//           messages for each field) and an end mark, and then broadcasts the outcome.
//
// (1) Either every rank throws the root's error, or no rank does, because the root's next broadcast carries the error.
// (2) If the root fails while it sends parts, it still sends every end mark, so no rank waits forever.
// (3) A piece has about 64 MiB, or one larger sample, and is used in the memory where it was received. So a rank has
//     its part in memory once; the root has one more piece.
// (4) A CommError is thrown at once, because the communicator can't be used any more.
//
// Cost: the table has about 100 bytes for each shard. Each sample from the root's memory is sent once.
#include <mn/loader/scatter.hpp>

#include <algorithm>
#include <exception>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/data/memory_dataset.hpp>
#include <mn/loader/share_stage.hpp>

namespace mn {
namespace {

using nlohmann::json;

constexpr std::int64_t kPieceBytes = std::int64_t{64} << 20;  // approximate bytes of a piece's samples
constexpr int kTag = 7101;

/// Returns the result of work(), or its error as JSON, which throw_if_failed() throws.
template <class Work>
json outcome_of(const Work& work) {
  try {
    return work();
  } catch (const CommError&) {
    throw;
  } catch (const Error& error) {
    return {{"error", error.what()}, {"usage", error.exit_code() == UsageError("").exit_code()}};
  } catch (const std::bad_alloc&) {
    return {{"error", "scatter_dataset does not have enough memory to read the dataset"}, {"usage", false}};
  } catch (const std::exception& error) {
    return {{"error", std::string("reading the dataset in scatter_dataset failed: ") + error.what()}, {"usage", false}};
  }
}

void throw_if_failed(const json& message) {
  if (!message.contains("error")) return;
  if (message.at("usage").get<bool>()) throw UsageError(message.at("error").get<std::string>());
  throw DataError(message.at("error").get<std::string>(), true);
}

/// Collective. Returns the root's facts about the dataset (size, spec, table). Throws the root's error on every rank.
json agree(const Dataset* dataset, Communicator& comm, int root) {
  json facts;
  if (comm.rank() == root) {
    facts = outcome_of([&]() -> json {
      if (dataset == nullptr)
        throw UsageError("scatter_dataset got no dataset on its root, rank " + std::to_string(root));
      const std::string table = dataset->table();
      const json spec = to_json(dataset->spec());
      (void)sample_spec_from_json(spec, "scatter_dataset: the root's dataset");
      return {{"samples", dataset->size()},
              {"fingerprint", dataset->fingerprint()},
              {"spec", table.empty() ? spec : json()},
              {"format", dataset->format()},
              {"table", json::binary({table.begin(), table.end()})}};
    });
  }
  facts = comm.bcast_obj(facts, root);
  throw_if_failed(facts);
  return facts;
}

std::shared_ptr<Dataset> open_with(const TableOpeners& openers, const std::string& format, const std::string& table) {
  const auto opener = openers.find(format);
  if (opener == openers.end() || !opener->second) {
    throw UsageError("scatter_dataset has no opener for the format \"" + format +
                     "\" of the root's dataset: give it one on every rank");
  }
  auto opened = opener->second(table);
  if (opened == nullptr) throw DataError("the opener of \"" + format + "\" returned no dataset");
  return opened;
}

std::shared_ptr<Dataset> share_table(const std::shared_ptr<Dataset>& dataset, const json& facts, Communicator& comm,
                                     int root, const TableOpeners& openers) {
  const auto& bytes = facts.at("table").get_binary();
  const std::string table(bytes.begin(), bytes.end());
  const auto format = facts.at("format").get<std::string>();
  if (format == kShardsFormat) return comm.rank() == root ? dataset : open_table(table);
  std::shared_ptr<Dataset> mine = dataset;
  const json outcome = outcome_of([&]() -> json {
    if (comm.rank() != root) mine = open_with(openers, format, table);
    if (mine->size() == facts.at("samples")) return json::object();
    throw DataError("the opener of \"" + format + "\" returned " + std::to_string(mine->size()) +
                    " samples, the root has " + facts.at("samples").dump());
  });
  for (const json& each : comm.allgather_obj(outcome)) throw_if_failed(each);
  return mine;
}

/// Collective. Copies the dataset's files to this node from now on. If the node can't hold copies, logs a warning.
void stage(Dataset& dataset, const StageOptions& options, Communicator& comm) {
  auto node = share_stage_node(options.folder, comm);
  if (!node) return;
  try {
    dataset.stage(options, std::move(node));
  } catch (const std::exception& error) {  // concerns this rank only: all collective calls are done
    log_warning("files are not copied to " + options.folder.string() + ": " + error.what());
  }
}

std::shared_ptr<const Dataset> share(const std::shared_ptr<Dataset>& dataset, const json& facts, Communicator& comm,
                                     const ScatterOptions& options, const TableOpeners& openers) {
  auto mine = share_table(dataset, facts, comm, options.root, openers);
  if (!same_on_all_ranks(mine->fingerprint(), comm)) {
    throw DataError("the ranks do not hold the same data: do all nodes run the same build of this program?", true);
  }
  mine->share(comm.size());
  if (!options.stage.folder.empty()) stage(*mine, options.stage, comm);
  return mine;
}

/// Sends some samples to rank `dest`: first a header with the number of samples and the bytes of each field, then each
/// field's offsets, if its samples vary in length, and bytes.
void send_piece(const RawSamples& piece, Communicator& comm, int dest) {
  json bytes = json::array();
  for (const RawColumn& column : piece.columns) bytes.push_back(column.bytes.size());
  comm.send_obj(json{{"samples", piece.size()}, {"bytes", std::move(bytes)}}, dest, kTag);
  for (const RawColumn& column : piece.columns) {
    if (!column.offsets.empty()) comm.send(column.offsets, dest, kTag);
    comm.send(column.bytes, dest, kTag);
  }
}

/// Reads the samples `indices` in pieces of about kPieceBytes, and calls take(piece) for each.
template <class Take>
void read_part(const Dataset& dataset, const std::vector<std::int64_t>& indices, Take take) {
  constexpr std::int64_t kFirst = 16;  // samples in the first piece if sizes vary, to learn the average size
  SampleSpec spec = dataset.spec();
  const bool fixed = spec.is_fixed();
  std::int64_t step = fixed ? kPieceBytes / std::max<std::int64_t>(spec.sample_bytes(), 1) : kFirst;
  RawSamples piece;
  for (std::size_t done = 0; done < indices.size();) {
    const auto samples = static_cast<std::size_t>(std::max<std::int64_t>(step, 1));
    const auto some = std::span(indices).subspan(done, std::min(samples, indices.size() - done));
    dataset.read(some, piece);
    check_samples(piece, spec);
    done += some.size();
    if (!fixed) step = kPieceBytes * piece.size() / std::max<std::int64_t>(piece.bytes(), 1);
    take(piece);
  }
}

/// Root only: sends every other rank its part, and stores the root's part in `own`. Returns success or the error.
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
    return json::object();
  });
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank != comm.rank()) comm.send_obj(json{{"samples", -1}}, rank, kTag);
  }
  return outcome;
}

std::vector<RawSamples> receive_part(const SampleSpec& spec, Communicator& comm, int root) {
  std::vector<RawSamples> pieces;
  while (true) {
    const json header = comm.recv_json(root, kTag);
    const auto samples = whole_number<std::int64_t>(header.at("samples"));
    if (samples < 0) return pieces;
    RawSamples& piece = pieces.emplace_back(spec);
    piece.count = samples;
    for (std::size_t f = 0; f < piece.columns.size(); ++f) {
      RawColumn& column = piece.columns[f];
      column.bytes.resize(whole_number<std::size_t>(header.at("bytes").at(f)));
      if (!column.offsets.empty()) {
        column.offsets.resize(samples + 1);
        comm.recv(column.offsets, root, kTag);
      }
      comm.recv(column.bytes, root, kTag);
    }
  }
}

std::shared_ptr<const Dataset> scatter_parts(const Dataset* dataset, const SampleSpec& spec, Communicator& comm,
                                             const ScatterOptions& options) {
  json outcome;
  std::vector<RawSamples> part;
  if (comm.rank() == options.root) {
    outcome = send_parts(*dataset, comm, options, part);
  } else {
    part = receive_part(spec, comm, options.root);
  }
  throw_if_failed(comm.bcast_obj(outcome, options.root));
  return std::make_shared<MemoryDataset>(spec, std::move(part));
}

}  // namespace

std::pair<std::int64_t, std::int64_t> scatter_index(std::int64_t n, const Communicator& comm, bool force_equal_length) {
  return scatter_index(n, comm.rank(), comm.size(), force_equal_length);
}

std::shared_ptr<SubDataset> scatter_dataset(std::shared_ptr<Dataset> dataset, const std::shared_ptr<Communicator>& comm,
                                            const ScatterOptions& options, const TableOpeners& openers) {
  if (options.root < 0 || options.root >= comm->size()) {
    throw ArgumentError("scatter_dataset from rank " + std::to_string(options.root) + " of " +
                        std::to_string(comm->size()));
  }
  // If ranks had different orders, some samples would be in several parts and others in none.
  prove_equal({{"root", options.root},
               {"shuffle", options.shuffle},
               {"seed", options.seed},
               {"force_equal_length", options.force_equal_length}},
              "scatter_dataset's options", *comm);
  const json facts = agree(dataset.get(), *comm, options.root);
  const auto n = whole_number<std::int64_t>(facts.at("samples"));
  if (!facts.at("table").get_binary().empty()) {
    return std::make_shared<SubDataset>(share(dataset, facts, *comm, options, openers), comm->rank(), comm->size(),
                                        options);
  }
  const SampleSpec spec = sample_spec_from_json(facts.at("spec"), "the root's dataset");
  ScatteredPart part{.samples = scatter_parts(dataset.get(), spec, *comm, options),
                     .global_size = n,
                     .fingerprint = facts.at("fingerprint")};
  return std::make_shared<SubDataset>(std::move(part), comm->rank(), comm->size(), options);
}

std::shared_ptr<SubDataset> share_dataset(std::shared_ptr<const Dataset> dataset,
                                          const std::shared_ptr<Communicator>& comm, const ScatterOptions& options) {
  std::int64_t all_have = dataset ? 1 : 0;
  comm->allreduce(std::span(&all_have, 1), ReduceOp::kMin);
  if (all_have == 0 || !same_on_all_ranks(dataset->fingerprint(), *comm)) {
    throw ArgumentError(
        "share_dataset got different datasets on the ranks, or none: make the same one on every rank, or use "
        "scatter_dataset where rank 0 alone has it",
        true);
  }
  return std::make_shared<SubDataset>(std::move(dataset), comm->rank(), comm->size(), options);
}

}  // namespace mn

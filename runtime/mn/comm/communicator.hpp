/// A fixed group of ranks that issue the same collectives in the same order; ChainerMN's communicator.
#pragma once

#include <chrono>
#include <climits>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mpi.h>
#include <nlohmann/json_fwd.hpp>

#include <mn/comm/call_timeout.hpp>
#include <mn/comm/communicator_setup.hpp>
#include <mn/comm/create_communicator.hpp>
#include <mn/comm/messages/request.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/comm/mpi/topology.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

class CallCheck;
class CallScope;
class CallHostCopies;
class CommunicationThread;
class DeviceCollectives;
class MessageReducer;
class SharedReducer;
struct Reduction;

/// A group of ranks, and how they exchange data.
/// Buffers are spans, vectors, arrays or tensors, on the host or on this communicator's device; counts are elements and
/// may exceed INT_MAX. NCCL moves device buffers where the backend has it, MPI where it takes them; else they are
/// staged through page-locked host memory. A call begins after the work on the streams that its buffers name: a tensor
/// names torch's current stream, other views the legacy default stream unless told otherwise. Where one rank passes a
/// device buffer all do. But for those of device_collectives(), calls block until any stream may use the result, and
/// memory may be freed.
///
/// All ranks of the group must make a collective call with the same count, dtype, op and root. Arguments are checked
/// before anything is sent: ArgumentError. CommError when MPI, CUDA or NCCL fails; after it the communicator can only
/// be destroyed. One thread at a time. Creation and destruction are collective. Where one rank gives other ones, nobody
/// writes beyond its memory: those that see it throw CommError, with a time-out the rest, too. NCCL compares nothing.
/// Debug mode (MN_DEBUG=1, or CommunicatorOptions): before each collective call the ranks compare operation, count,
/// dtype, op and root, and search gradients for values that are not finite. A mismatch, or an argument that one rank
/// rejects, throws the same ArgumentError on every rank, with the rank, the argument and both versions in it.
///
/// Time-outs (CommunicatorOptions::timeout, set_timeout()): a call that does not end in time, 50 ms at least, throws
/// CommError on every rank that waits in it, with the call, its number and which ranks are missing. A rank that comes
/// later throws too, in that call or the next. MPI may still write to its buffers: they must live as long as the
/// process. Not limited: creation, split(), finalize() and what device_collectives() enqueues (MN_NCCL_TIMEOUT).
class Communicator : public PlacedRank {
 public:
  /// Collective, unless an exception unwinds or MPI is finalized.
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;             ///< not copyable
  Communicator& operator=(const Communicator&) = delete;  ///< not copyable

  /// The backend's name: "hierarchical".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Where this rank computes, and where device buffers must lie.
  [[nodiscard]] Device device() const noexcept { return device_; }
  /// The calls that are ordered with the work of a GPU's streams; null on backends that need the host in between, and
  /// after finalize().
  [[nodiscard]] DeviceCollectives* device_collectives();
  /// Whether calls are compared between ranks.
  [[nodiscard]] bool debug() const noexcept;
  /// This communicator's own, with MPI_ERRORS_RETURN: for messages. Collective calls go through another one.
  [[nodiscard]] MPI_Comm mpi_comm() const noexcept { return comm_.get(); }

  /// Collective: frees what the group holds of MPI, as destruction would. Every later call but this one, abort()
  /// and those that set or tell something throws ArgumentError. Memory from allocate() remains valid.
  void finalize();

  /// Collective: the ranks with equal `color` form a communicator of the same backend, ordered by key, then rank.
  /// A rank with a negative color takes part in the call and gets null.
  [[nodiscard]] std::shared_ptr<Communicator> split(int color, int key) const;

  /// Time-out of the calls that this rank makes from now on; 0: none. Collective calls need one on all ranks or on
  /// none. CallTimeout sets it for some calls.
  void set_timeout(std::chrono::milliseconds timeout);
  /// That of the next call; 0: none.
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept;
  /// Whether a call has given up: then only destruction is left, which leaves behind what MPI may still use.
  [[nodiscard]] bool has_given_up() const noexcept;
  /// Any rank, any thread that makes no call: the calls with a time-out in which other ranks wait, now or later, throw
  /// CommError with `reason` (its first 200 bytes); so does every later call here. A call without a time-out goes on.
  void abort(const std::string& reason);

  static constexpr int kMaxTag = 32766;        ///< tags are 0 to this
  static constexpr int kAnyTag = MPI_ANY_TAG;  ///< receives the source's next message of whatever tag
  static constexpr int kAnySource = INT_MIN;   ///< recv(), recv_obj(), recv_json(): the next message of any rank
  /// To another rank, which must receive the same count and dtype. May wait for that rank: of two ranks that send to
  /// each other one must receive first, or both use sendrecv(). In debug mode a send always waits for its receiver, and
  /// says so after three seconds.
  void send(ConstBufferView buffer, int dest, int tag = 0);
  /// From another rank, or from kAnySource; returns who sent it. Throws CommError if that has sent another count or
  /// dtype.
  int recv(BufferView buffer, int source, int tag = 0);
  /// As send() and recv(), without waiting: the result's wait() does. To or from the same rank with the same tag,
  /// messages arrive in the order of the calls.
  Request isend(ConstBufferView buffer, int dest, int tag = 0);
  /// recv() without waiting: the buffer is filled when the request's wait() returns. `source` is one rank, not kAnySource.
  Request irecv(BufferView buffer, int source, int tag = 0);
  /// Sends to `dest` and receives from `source` at once, so ranks may exchange or pass on in a ring, of one rank too.
  void sendrecv(ConstBufferView send, int dest, BufferView recv, int source, int tag = 0);

  // Buffers of one call must not overlap, except that a rank's own part may lie where it belongs in the other buffer.

  /// Every rank ends with what `root` held. `name`, the same on all ranks, is for debug mode's messages.
  void bcast(BufferView buffer, int root = 0, std::string_view name = {});
  /// On `root` recv holds size() × send.count elements, by rank; ignored elsewhere.
  void gather(ConstBufferView send, BufferView recv, int root = 0);
  /// recv holds size() × send.count elements.
  void allgather(ConstBufferView send, BufferView recv);
  /// Part i of send goes to rank i; part j of recv came from rank j. Equal counts, a multiple of size(). `recv` may be
  /// `send`, which then is copied.
  void alltoall(ConstBufferView send, BufferView recv);
  /// Part i of root's send (size() × recv.count elements) goes to rank i.
  void scatter(ConstBufferView send, BufferView recv, int root = 0);
  /// In place. On CPU backends each element is reduced in rank order, by hierarchical and two_dimensional within each
  /// node first and then in the order of the nodes: equal bits on all ranks, whatever the count. The minimum or maximum
  /// of elements of which one is NaN is NaN. Averages, here and below, are of floats.
  void allreduce(BufferView buffer, ReduceOp op = ReduceOp::kSum);
  /// On `root` recv, which may be `send`, gets the reduction of every rank's send, with the bits that allreduce of flat
  /// would give; ignored elsewhere. On the root both lie on the host, or both on the device.
  void reduce(ConstBufferView send, BufferView recv, ReduceOp op = ReduceOp::kSum, int root = 0);
  /// recv gets part rank() of the reduction of send (size() × recv.count elements).
  void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op = ReduceOp::kSum);
  /// Returns when every rank has called it.
  void barrier();
  /// The same; after `timeout`, above 0, CommError that says which ranks have not called it.
  void monitored_barrier(std::chrono::milliseconds timeout);

  // The same calls without waiting: the result's wait() does. Several may be under way, beside blocking calls too, and
  // be waited for in any order. All ranks make the group's collective calls, blocking or not, in the same order.
  // Buffers are left alone until wait() returns. On the device where NCCL is the backend the calls are enqueued behind
  // the work on the buffers' streams; else a thread makes them, with the bits of the blocking form, on a communicator
  // of its own: UsageError without MPI_THREAD_MULTIPLE. In debug mode that thread compares them, and wait() throws.

  /// As bcast().
  Request ibcast(BufferView buffer, int root = 0);
  /// As allgather().
  Request iallgather(ConstBufferView send, BufferView recv);
  /// As allreduce().
  Request iallreduce(BufferView buffer, ReduceOp op = ReduceOp::kSum);
  /// As reduce_scatter().
  Request ireduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op = ReduceOp::kSum);

  // Parts of different lengths, one behind the other by rank; a part may be empty. Every rank knows its counts: of
  // gatherv, scatterv and allgatherv they are one for each rank's part, the same on every rank. send and recv must not
  // overlap. An empty buffer, too, lies where the other ranks' do.

  /// On `root` recv holds all parts; ignored elsewhere. send has counts[rank()] elements. On the root both lie on the
  /// host, or both on the device.
  void gatherv(ConstBufferView send, BufferView recv, std::span<const std::size_t> counts, int root = 0);
  /// Part i of root's send goes to rank i, whose recv has counts[i] elements; send is ignored elsewhere. On the root
  /// both lie on the host, or both on the device.
  void scatterv(ConstBufferView send, std::span<const std::size_t> counts, BufferView recv, int root = 0);
  /// recv holds all parts. send has counts[rank()] elements.
  void allgatherv(ConstBufferView send, BufferView recv, std::span<const std::size_t> counts);
  /// Part i of send, of send_counts[i] elements, goes to rank i; part j of recv, of recv_counts[j], came from rank j,
  /// whose send_counts[rank()] must say the same: else CommError there, and in debug mode ArgumentError.
  void alltoallv(ConstBufferView send, std::span<const std::size_t> send_counts, BufferView recv,
                 std::span<const std::size_t> recv_counts);

  // Strings (any bytes) and JSON documents of any length, which only the sender needs to know. Documents keep numbers
  // that are not finite; what was sent as a document is received as one.

  /// To another rank, which receives it with recv_obj.
  void send_obj(const std::string& object, int dest, int tag = 0);
  /// What `source`, or kAnySource, sent with send_obj. `sender`, unless null, gets who that was.
  [[nodiscard]] std::string recv_obj(int source, int tag = kAnyTag, int* sender = nullptr);
  /// root's object, on every rank.
  [[nodiscard]] std::string bcast_obj(const std::string& object, int root = 0);
  /// By rank on `root`; empty elsewhere.
  [[nodiscard]] std::vector<std::string> gather_obj(const std::string& object, int root = 0);
  /// By rank, on every rank.
  [[nodiscard]] std::vector<std::string> allgather_obj(const std::string& object);
  /// objects[i] of `root` goes to rank i.
  [[nodiscard]] std::string scatter_obj(const std::vector<std::string>& objects, int root = 0);
  /// To another rank, which receives it with recv_json.
  void send_obj(const nlohmann::json& object, int dest, int tag = 0);
  /// The document that `source`, or kAnySource, sent with send_obj. `sender`: as above.
  [[nodiscard]] nlohmann::json recv_json(int source, int tag = kAnyTag, int* sender = nullptr);
  /// root's document, on every rank.
  [[nodiscard]] nlohmann::json bcast_obj(const nlohmann::json& object, int root = 0);
  /// By rank on `root`; empty elsewhere.
  [[nodiscard]] std::vector<nlohmann::json> gather_obj(const nlohmann::json& object, int root = 0);
  /// By rank, on every rank.
  [[nodiscard]] std::vector<nlohmann::json> allgather_obj(const nlohmann::json& object);
  /// The sum of numbers; arrays and objects are summed element by element (as ChainerMN's allreduce_obj, which however
  /// joins lists); all else must be the same on all ranks. ArgumentError on every rank if the documents differ in form
  /// or a sum of integers needs more than 64 bits.
  [[nodiscard]] nlohmann::json allreduce_obj(const nlohmann::json& object);
  /// Literals are strings.
  /// @{
  void send_obj(const char* object, int dest, int tag = 0) { send_obj(std::string(object), dest, tag); }
  [[nodiscard]] std::string bcast_obj(const char* object, int root = 0) { return bcast_obj(std::string(object), root); }
  [[nodiscard]] std::vector<std::string> gather_obj(const char* object, int root = 0) {
    return gather_obj(std::string(object), root);
  }
  [[nodiscard]] std::vector<std::string> allgather_obj(const char* text) { return allgather_obj(std::string(text)); }
  /// @}

  /// Collective to allocate; released locally, in any order, by any thread, also after finalize() or while an exception
  /// unwinds. Host memory that this backend handles fastest: shared between the node's ranks where it can be,
  /// page-locked where the device is a GPU; 64-byte aligned, zeroed.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes);

  /// Collective to make; released locally, as memory is. What reduces these buffers, which lie in one piece of memory
  /// from allocate() and are alike on every rank, while ranks still write to some of them; null where not all ranks
  /// share that memory. The buffers must outlive it.
  [[nodiscard]] std::unique_ptr<SharedReducer> share(std::span<const BufferView> buffers);

  /// The sum over ranks, times `scale`, of each buffer, in place: how this backend averages gradients. Buffers that
  /// follow each other in memory (views of one flat buffer) are reduced where they lie, without a copy. `names` of
  /// parameters, one for each gradient or none, are for debug mode's messages.
  void allreduce_grad(std::span<const BufferView> gradients, double scale, std::span<const std::string> names = {});
  /// What allreduce_grad() checks before it sends; collective in debug mode.
  void check_grad(std::span<const BufferView> gradients, double scale, std::span<const std::string> names = {});

  // The next two take a torch::nn::Module or a std::vector<at::Tensor>, and need <mn/tensor/tensor.hpp>.

  /// Parameters and buffers (or just these tensors) of every rank become root's. ArgumentError on every rank if the
  /// ranks' tensors differ in number, shape or dtype.
  template <class Model>
  void broadcast_data(Model&& model, int root = 0) {
    broadcast_tensors(*this, model, root);
  }
  /// Gradients become their mean over ranks. A gradient that is None here counts as zero where another rank has one.
  template <class Model>
  void allreduce_grad(Model&& model) {
    average_gradients(*this, model);
  }

 protected:
  /// Collective over setup.comm.
  explicit Communicator(CommunicatorSetup setup);
  /// For all but the program's messages between two ranks, whose receives may take any tag.
  [[nodiscard]] MPI_Comm internal_comm() const noexcept { return internal_comm_.get(); }
  /// Reduces over MPI messages, each element in rank order.
  [[nodiscard]] MessageReducer& reducer() noexcept { return *reducer_; }
  /// Elements that one MPI message may count.
  [[nodiscard]] std::size_t count_limit() const noexcept { return count_limit_; }
  /// The dtype in which gradients travel; std::nullopt: their own.
  [[nodiscard]] std::optional<DType> allreduce_grad_dtype() const noexcept { return allreduce_grad_dtype_; }

 private:
  /// Null unless the backend has collectives of the device's own.
  virtual DeviceCollectives* do_device_collectives() noexcept;
  // Backends override these; arguments are already checked, buffers lie on the host, counts may exceed INT_MAX.
  virtual void do_allreduce(BufferView buffer, const Reduction& reduction);
  virtual void do_allreduce_grad(std::span<const BufferView> gradients, double scale) = 0;
  /// The same for gradients that all lie on the device; false if they must be staged through the host.
  virtual bool do_allreduce_grad_on_device(std::span<const BufferView> gradients, double scale);
  /// Null where ordinary memory serves as well.
  virtual std::shared_ptr<std::byte> do_allocate(std::size_t bytes);
  virtual std::unique_ptr<SharedReducer> do_share(std::span<const BufferView> buffers);
  /// Local: moves what the backend made for the communicator of the background thread into that one's setup.
  virtual void do_prepare_background(CommunicatorSetup& background);
  /// Frees what the backend made of MPI, collectively.
  virtual void do_finalize();
  /// Collective: what the parts of a split() start from, which have ranks by `key`; null where `color` is negative.
  [[nodiscard]] virtual std::shared_ptr<Nccl> do_split(int color, int key) const;

  /// Whether the device's own collectives took `call`: all buffers lie on the device.
  template <class Buffers, class Call>
  bool enqueue_on_device(const Buffers& buffers, const Call& call);
  /// The same, and what was enqueued is done.
  template <class Buffers = std::initializer_list<ConstBufferView>, class Call>
  bool on_device(const Buffers& buffers, const Call& call);
  /// On the device `enqueue`, if all buffers lie there and it has collectives of its own; else `call` on the thread.
  template <class Enqueue, class Call>
  [[nodiscard]] Request start(std::initializer_list<ConstBufferView> buffers, const Enqueue& enqueue, Call call);
  [[nodiscard]] std::shared_ptr<CommunicationThread> make_background();
  [[nodiscard]] CallScope begin_grad(std::span<const BufferView> gradients, double scale,
                                     std::span<const std::string> names);
  void check_gradients(std::span<const BufferView> gradients, std::span<const std::string> names);

  std::string name_;
  Mpi comm_;
  Mpi internal_comm_;
  Mpi background_comm_;  // for background_, which calls MPI at times of its own; none where no thread can
  Device device_;
  std::size_t count_limit_;
  std::optional<DType> allreduce_grad_dtype_;
  std::shared_ptr<Communicator> (*make_)(CommunicatorSetup);
  std::shared_ptr<CallCheck> calls_;
  std::unique_ptr<MessageReducer> reducer_;
  std::unique_ptr<CallHostCopies> host_copies_;
  std::unique_ptr<DeviceCollectives> recorded_;      // do_device_collectives(), recorded
  std::shared_ptr<CommunicationThread> background_;  // from the first call that needs it on
};

}  // namespace mn

/// A communicator, as in ChainerMN: a fixed group of ranks, each of which makes the group's collective calls in the
/// same order.
#pragma once

#include <chrono>
#include <climits>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mpi.h>
#include <nlohmann/json_fwd.hpp>

#include <mn/comm/communicator_setup.hpp>
#include <mn/comm/create_communicator.hpp>
#include <mn/comm/device/nccl_limits.hpp>
#include <mn/comm/messages/request.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/comm/mpi/topology.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

class CallCheck;
class CallScope;
class CallHostCopies;
struct CallSignature;
class CommunicationThread;
class DeviceCollectives;
class MessageReducer;
class SharedReducer;
struct Reduction;

/// A group of ranks, and how they exchange data.
///
///     auto comm = mn::create_communicator("auto");  // collective over MPI_COMM_WORLD
///     std::vector<float> loss{local_loss}, weights(1000);
///     comm->bcast(weights);                         // every rank has rank 0's weights
///     mn::Request mean = comm->iallreduce(loss, mn::ReduceOp::kAverage);
///     compute(weights);                             // while the mean is under way
///     mean.wait();
///
/// Buffers are spans, vectors, arrays or tensors, on the host or on the communicator's device. Counts are numbers of
/// elements and may exceed INT_MAX. If one rank passes a device buffer, all ranks must. NCCL moves device buffers if
/// the backend has NCCL. Otherwise MPI moves them: directly if MPI takes device memory, else through host copies. A
/// call begins after the work that is enqueued on its buffers' streams. (For a tensor this is torch's current stream,
/// for a view BufferView::stream.) The call blocks until any stream may use the result and the buffers may be freed.
/// Calls of device_collectives() only enqueue the work.
///
/// All ranks must make a collective call with equal count, dtype, op and root. Creation and destruction are collective.
/// One thread at a time may call a communicator. A wrong argument throws ArgumentError before anything is sent. If MPI,
/// CUDA or NCCL fails, calls throw CommError, and the communicator can only be destroyed. If ranks pass different
/// arguments, no rank writes out of bounds, and ranks that notice the difference throw CommError. In calls with a
/// time-out all ranks throw. Calls through NCCL compare no arguments.
///
/// Debug mode (MN_DEBUG=1 or CommunicatorOptions::debug): before each collective call the ranks compare operation,
/// count, dtype, op and root, and search gradients for values that are not finite. If the ranks differ, or one rank
/// rejects an argument, every rank throws an equal ArgumentError.
///
/// Time-outs (CommunicatorOptions::timeout, set_timeout()) are at least 50 ms. When a call's time is over, every
/// waiting rank throws a CommError that names the missing ranks, and a late rank throws in this or the next call.
/// Afterwards MPI may still write to the call's buffers, so they must live as long as the process. Creation, split()
/// and finalize() have no time-out; the time-out of device_collectives() is MN_NCCL_TIMEOUT.
class Communicator : public PlacedRank {
 public:
  /// Collective, unless an exception is unwinding the stack or MPI is finalized.
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;             ///< not copyable
  Communicator& operator=(const Communicator&) = delete;  ///< not copyable

  /// Name of the backend, for example "hierarchical".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The device on which the calling rank computes. Device buffers must lie on this device.
  [[nodiscard]] Device device() const noexcept { return device_; }
  /// Returns collectives that are enqueued on a GPU's stream. Null after finalize(), or if the backend makes its
  /// collective calls on the host.
  [[nodiscard]] DeviceCollectives* device_collectives();
  /// Whether debug mode is on.
  [[nodiscard]] bool debug() const noexcept;
  /// The MPI communicator of send() and recv(), with MPI_ERRORS_RETURN. Collective calls use a second MPI communicator.
  [[nodiscard]] MPI_Comm mpi_comm() const noexcept { return comm_.get(); }

  /// Collective: frees all MPI resources. Later calls throw ArgumentError, except finalize(), abort(), and functions
  /// that get or set a value. Memory from allocate() remains valid.
  void finalize();

  /// Collective: makes a communicator of the same backend for the ranks with equal `color`, ordered by `key`, then by
  /// rank. A rank with a negative color takes part in the call and gets null. `limits` hold for the new communicator
  /// and must be equal on all ranks. They have no effect unless the backend uses NCCL 2.18 or newer.
  [[nodiscard]] std::shared_ptr<Communicator> split(int color, int key, const NcclLimits& limits = {}) const;

  /// Sets the time-out of this rank's later calls; 0 means none. In a collective call, either all ranks or no rank must
  /// have a time-out.
  void set_timeout(std::chrono::milliseconds timeout);
  /// Time-out of the next call; 0 means none.
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept;
  /// True if a call has given up. The communicator can then only be destroyed, and its destructor leaks memory that MPI
  /// may still use.
  [[nodiscard]] bool has_given_up() const noexcept;
  /// Ends the communicator on all ranks. Each waiting call that has a time-out, and each later call of this rank,
  /// throws a CommError with the first 200 bytes of `reason`. Any rank may call abort(), on any thread that is in no
  /// other call.
  void abort(const std::string& reason);

  static constexpr int kMaxTag = 32766;        ///< tags are 0 to kMaxTag
  static constexpr int kAnyTag = MPI_ANY_TAG;  ///< as the tag: recv() takes the next message of any tag
  static constexpr int kAnySource = INT_MIN;   ///< as the source: recv…() take the next message of any rank
  /// Sends to a different rank, which must receive an equal count and dtype. send() may wait for the receiver.
  /// Therefore if two ranks send to each other, one of them must call recv() first, or both must call sendrecv(). In
  /// debug mode send() always waits for the receiver, and logs a line after three seconds.
  void send(ConstBufferView buffer, int dest, int tag = 0);
  /// Receives from `source` (kAnySource: from any rank), and returns the sender's rank. Throws CommError if the
  /// sender's count or dtype differs.
  int recv(BufferView buffer, int source, int tag = 0);
  /// Like send(), but does not block. The buffer may be used again after the wait() of the returned request. Messages
  /// between two ranks with equal tags arrive in the order of the calls.
  Request isend(ConstBufferView buffer, int dest, int tag = 0);
  /// Like recv(), but does not block. The buffer is filled after the wait() of the returned request. `source` must be a
  /// rank, not kAnySource.
  Request irecv(BufferView buffer, int source, int tag = 0);
  /// Sends to `dest` and receives from `source` at the same time, so exchanges and rings cannot deadlock. `dest` and
  /// `source` may both be rank().
  void sendrecv(ConstBufferView send, int dest, BufferView recv, int source, int tag = 0);

  // The buffers of one call must not overlap, with one exception: a rank's own part may already lie at its offset in
  // the larger buffer.

  /// Copies the elements of `root` to the buffer of every rank. `name` appears in the messages of debug mode, and must
  /// be equal on all ranks.
  void bcast(BufferView buffer, int root = 0, std::string_view name = {});
  /// Collects the elements in `send` of all ranks. On `root`, `recv` gets size() × send.count elements, in rank order.
  /// On all ranks except the root `recv` is ignored.
  void gather(ConstBufferView send, BufferView recv, int root = 0);
  /// Collects the elements in `send` of all ranks. On every rank, `recv` gets size() × send.count elements, in rank
  /// order.
  void allgather(ConstBufferView send, BufferView recv);
  /// Part i of `send` goes to rank i, and part j of `recv` comes from rank j. Each buffer has n × size() elements, n
  /// for each part. `recv` and `send` may be the same buffer.
  void alltoall(ConstBufferView send, BufferView recv);
  /// Part i of the root's `send` goes to rank i. The root's `send` has size() × recv.count elements. On all ranks
  /// except the root `send` is ignored.
  void scatter(ConstBufferView send, BufferView recv, int root = 0);
  /// Reduces `buffer` over the ranks, in place. CPU backends reduce each element in rank order, except that
  /// hierarchical and two_dimensional reduce within each node first, then in the order of nodes. All ranks get equal
  /// bits, whatever the count. The minimum and maximum of a NaN and any number are NaN. In this and the following
  /// functions, kAverage takes only float dtypes.
  void allreduce(BufferView buffer, ReduceOp op = ReduceOp::kSum);
  /// On `root`, `recv` gets the reduction of all ranks' `send`, with the same bits as from allreduce() of the backend
  /// flat. `recv` and `send` may be the same buffer. Both must lie on the host, or both on the device. On all ranks
  /// except the root `recv` is ignored.
  void reduce(ConstBufferView send, BufferView recv, ReduceOp op = ReduceOp::kSum, int root = 0);
  /// Reduces `send`, which has size() × recv.count elements, over the ranks. `recv` gets part number rank() of the
  /// result.
  void reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op = ReduceOp::kSum);
  /// Returns when every rank has called barrier().
  void barrier();
  /// Like barrier(), but with its own time-out, which must be above 0. When this time is over, throws a CommError that
  /// names the missing ranks.
  void monitored_barrier(std::chrono::milliseconds timeout);

  // Nonblocking calls return a Request, whose wait() returns when the call is done. Several calls may be under way at
  // once, blocking calls may be made before wait(), and wait() may be called in any order. All ranks must start all
  // collective calls in the same order. With NCCL, calls on device buffers are enqueued behind the work on the buffers'
  // streams. Otherwise a background thread makes the call on a second communicator, and the result has the same bits as
  // from the blocking call. The thread needs MPI_THREAD_MULTIPLE; without it these functions throw UsageError. If the
  // thread makes a call in debug mode, wait() throws the call's errors.

  /// The nonblocking forms of bcast(), allgather(), allreduce() and reduce_scatter().
  /// @{
  Request ibcast(BufferView buffer, int root = 0);
  Request iallgather(ConstBufferView send, BufferView recv);
  Request iallreduce(BufferView buffer, ReduceOp op = ReduceOp::kSum);
  Request ireduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op = ReduceOp::kSum);
  /// @}

  // The following calls move parts of different lengths. Parts lie in rank order, without gaps, and a part may be
  // empty. In gatherv, scatterv and allgatherv, `counts` has the length of each rank's part and must be equal on all
  // ranks. `send` and `recv` must not overlap. If the other ranks' buffers lie on their devices, an empty buffer must,
  // too. The root's two buffers must both lie on the host, or both on the device.

  /// On `root`, `recv` gets all parts. On all ranks except the root `recv` is ignored. `send` has counts[rank()]
  /// elements.
  void gatherv(ConstBufferView send, BufferView recv, std::span<const std::size_t> counts, int root = 0);
  /// Part i of the root's `send` goes to rank i, whose `recv` has counts[i] elements. On all ranks except the root
  /// `send` is ignored.
  void scatterv(ConstBufferView send, std::span<const std::size_t> counts, BufferView recv, int root = 0);
  /// On every rank `recv` gets all parts. `send` has counts[rank()] elements.
  void allgatherv(ConstBufferView send, BufferView recv, std::span<const std::size_t> counts);
  /// Part i of `send` has send_counts[i] elements and goes to rank i. Part j of `recv` has recv_counts[j] elements and
  /// comes from rank j. Throws CommError (in debug mode ArgumentError) if recv_counts[j] differs from the number of
  /// elements that rank j sends to this rank.
  void alltoallv(ConstBufferView send, std::span<const std::size_t> send_counts, BufferView recv,
                 std::span<const std::size_t> recv_counts);

  // The following calls send strings (any bytes) and JSON documents. Only the sender needs to know the length. Numbers
  // in documents may be NaN or infinite. A document must be received as a document, and a string as a string.

  /// Sends a string to rank `dest`, which receives it with recv_obj().
  void send_obj(const std::string& object, int dest, int tag = 0);
  /// Receives a string from `source`, or from kAnySource. `sender`, unless null, gets the sender's rank.
  [[nodiscard]] std::string recv_obj(int source, int tag = kAnyTag, int* sender = nullptr);
  /// Returns the string of `root` on every rank.
  [[nodiscard]] std::string bcast_obj(const std::string& object, int root = 0);
  /// On `root`, returns all ranks' strings, in rank order; on other ranks returns an empty vector.
  [[nodiscard]] std::vector<std::string> gather_obj(const std::string& object, int root = 0);
  /// On every rank, returns all ranks' strings, in rank order.
  [[nodiscard]] std::vector<std::string> allgather_obj(const std::string& object);
  /// On rank i, returns the string objects[i] that `root` passes. On all ranks except the root `objects` is ignored.
  [[nodiscard]] std::string scatter_obj(const std::vector<std::string>& objects, int root = 0);
  /// Sends a document to rank `dest`, which receives it with recv_json().
  void send_obj(const nlohmann::json& object, int dest, int tag = 0);
  /// Receives a document from `source`, or from kAnySource. `sender`, unless null, gets the sender's rank.
  [[nodiscard]] nlohmann::json recv_json(int source, int tag = kAnyTag, int* sender = nullptr);
  /// Returns the document of `root` on every rank.
  [[nodiscard]] nlohmann::json bcast_obj(const nlohmann::json& object, int root = 0);
  /// On `root`, returns all ranks' documents, in rank order; on other ranks returns an empty vector.
  [[nodiscard]] std::vector<nlohmann::json> gather_obj(const nlohmann::json& object, int root = 0);
  /// On every rank, returns all ranks' documents, in rank order.
  [[nodiscard]] std::vector<nlohmann::json> allgather_obj(const nlohmann::json& object);
  /// Returns the sum of all ranks' documents on every rank. Numbers are added, also numbers inside arrays and objects.
  /// All other values must be equal on all ranks. (ChainerMN joins lists instead.) Throws ArgumentError on every rank
  /// if documents differ in form, or if a sum of integers needs more than 64 bits.
  [[nodiscard]] nlohmann::json allreduce_obj(const nlohmann::json& object);
  /// Without these overloads, a string literal might become a JSON document.
  /// @{
  void send_obj(const char* object, int dest, int tag = 0) { send_obj(std::string(object), dest, tag); }
  [[nodiscard]] std::string bcast_obj(const char* object, int root = 0) { return bcast_obj(std::string(object), root); }
  [[nodiscard]] std::vector<std::string> gather_obj(const char* object, int root = 0) {
    return gather_obj(std::string(object), root);
  }
  [[nodiscard]] std::vector<std::string> allgather_obj(const char* text) { return allgather_obj(std::string(text)); }
  /// @}

  /// Collective: allocates zeroed host memory, aligned to 64 bytes. If possible, the ranks of a node share the memory.
  /// Otherwise the memory is page-locked if the device is a GPU. The release is not collective, and may happen on any
  /// thread, also after finalize().
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes);

  /// Collective: makes a reducer that can reduce the first of the `buffers` while slower ranks still write to later
  /// buffers. Null unless there are several ranks and all of them share memory. All buffers must lie in one block of
  /// allocate(), at equal offsets on every rank, and must outlive the reducer.
  [[nodiscard]] std::unique_ptr<SharedReducer> share(std::span<const BufferView> buffers);

  /// Replaces each gradient by `scale` times its sum over ranks. allreduce_grad() passes 1 / size() as the scale.
  /// Gradients that are views of one flat buffer are reduced without a copy. `names` is empty or has a name for each
  /// gradient, for the messages of debug mode.
  void sum_gradients(std::span<const BufferView> gradients, double scale, std::span<const std::string> names = {});
  /// Makes the checks of sum_gradients() without the reduction. In debug mode check_grad() is collective.
  void check_grad(std::span<const BufferView> gradients, double scale, std::span<const std::string> names = {});

  // The next two functions take a torch::nn::Module or a std::vector<at::Tensor>, and need <mn/tensor/tensor.hpp>.

  /// Copies the parameters and buffers of the root's module, or the root's tensors, to every rank. Throws ArgumentError
  /// on every rank if the tensors differ in number, shape or dtype.
  template <class Model>
  void broadcast_data(Model&& model, int root = 0) {
    broadcast_tensors(*this, model, root);
  }
  /// Replaces each gradient by its mean over ranks. On a rank where a gradient is not defined, it counts as zero.
  template <class Model>
  void allreduce_grad(Model&& model) {
    average_gradients(*this, model);
  }

 protected:
  /// Collective over setup.comm.
  explicit Communicator(CommunicatorSetup setup);
  /// The MPI communicator of all calls except send() and recv(). The two kinds of calls must not share an MPI
  /// communicator, because a recv() with kAnyTag would take messages of collective calls.
  [[nodiscard]] MPI_Comm internal_comm() const noexcept { return internal_comm_.get(); }
  /// From now on `compare` compares the ranks' calls, and throws CallMismatch on all ranks if they differ.
  void match_by(std::function<void(const CallSignature&)> compare);
  /// Reduces by messages, in the order of ranks.
  [[nodiscard]] MessageReducer& reducer() noexcept { return *reducer_; }
  /// The dtype in which gradients travel between ranks. If it has no value, each gradient travels in its own dtype.
  [[nodiscard]] std::optional<DType> allreduce_grad_dtype() const noexcept { return allreduce_grad_dtype_; }

 private:
  virtual DeviceCollectives* do_device_collectives() noexcept;
  // Backends override the functions below. Communicator has already checked the arguments and made host copies of
  // device buffers. Counts may exceed INT_MAX.
  virtual void do_allreduce(BufferView buffer, const Reduction& reduction) = 0;
  /// Exchanges parts of buffers on the host through shared memory. Both return false on all ranks, and do nothing, if
  /// the ranks do not share memory, or if messages are as quick.
  virtual bool do_allgather(ConstBufferView send, BufferView recv) = 0;
  virtual bool do_reduce_scatter(ConstBufferView send, BufferView recv, const Reduction& reduction) = 0;
  virtual void do_sum_gradients(std::span<const BufferView> gradients, double scale) = 0;
  /// Sums gradients that all lie on the device. Returns false, and changes nothing, if the backend needs host copies.
  virtual bool do_sum_gradients_on_device(std::span<const BufferView> gradients, double scale);
  virtual std::shared_ptr<std::byte> do_allocate(std::size_t bytes) = 0;
  virtual std::unique_ptr<SharedReducer> do_share(std::span<const BufferView> buffers) = 0;
  /// Moves the MPI communicators that the backend made for the background thread into `background`. Not collective.
  virtual void do_prepare_background(CommunicatorSetup& background) = 0;
  virtual void do_finalize() = 0;
  /// Collective: splits the backend's NCCL communicator. Null if the backend has no NCCL communicator, or if `color` is
  /// negative.
  [[nodiscard]] virtual std::shared_ptr<Nccl> do_split(int color, int key, const NcclLimits& limits) const;

  /// Passes the device's collectives to `call` if all buffers lie on the device. Otherwise returns false.
  template <class Buffers, class Call>
  bool enqueue_on_device(const Buffers& buffers, const Call& call);
  template <class Buffers = std::initializer_list<ConstBufferView>, class Call>
  bool on_device(const Buffers& buffers, const Call& call);
  /// Begins the nonblocking call `call`: on the device if its collectives can take all buffers, otherwise on the
  /// background thread.
  template <class Checks, class Call>
  [[nodiscard]] Request start(std::string_view operation, const ConstBufferView& what, const Checks& checks,
                              std::initializer_list<ConstBufferView> buffers, Call call);
  [[nodiscard]] std::shared_ptr<CommunicationThread> make_background();
  /// Exchanges parts between ranks: by the device's collectives if all buffers lie on the device. Otherwise `match`
  /// compares the call between ranks, and then messages carry the parts.
  template <class Cut, class Match>
  void exchange_parts(std::initializer_list<ConstBufferView> on_all_ranks, ConstBufferView send, BufferView recv,
                      const Cut& cut, const Match& match);
  [[nodiscard]] CallScope begin_grad(std::span<const BufferView> gradients, double scale,
                                     std::span<const std::string> names);
  void check_gradients(std::span<const BufferView> gradients, std::span<const std::string> names);
  friend class HeadedMessages;

  std::string name_;
  Mpi comm_;
  Mpi internal_comm_;
  Mpi background_comm_;  // for background_; empty without MPI_THREAD_MULTIPLE
  Device device_;
  std::optional<DType> allreduce_grad_dtype_;
  std::shared_ptr<CallCheck> calls_;
  std::unique_ptr<MessageReducer> reducer_;
  std::unique_ptr<CallHostCopies> host_copies_;
  std::unique_ptr<DeviceCollectives> recorded_;      // records device calls
  std::shared_ptr<CommunicationThread> background_;  // made by the first call that needs it
};

}  // namespace mn

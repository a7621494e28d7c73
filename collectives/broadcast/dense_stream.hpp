#pragma once
// All bytes of a call's arrays, as they are, from a root to all ranks, in fragments that are passed
// on as they arrive. On one machine they lie in the root's window, from which all ranks read them.
// Each fragment is followed by a
// checksum that is computed while it is copied (kernels/copy_sum.hpp). A last message has the
// version and the state's hash.
//
// A receiver either keeps the fragments until the ranks have voted, or (Writing::kEarly) copies the
// held values of a fragment to a log and writes the fragment over them, while its lines are in the
// cache. Without commit() they are restored.

#include <deque>

#include "collectives/broadcast/broadcast.hpp"
#include "collectives/broadcast/dense_arrays.hpp"
#include "collectives/broadcast/fanout.hpp"
#include "collectives/broadcast/stream.hpp"
#include "src/comm/comm_context.hpp"

namespace sparcl::collectives::broadcast {

class DenseStream final : public Stream {
 public:
  // number: of the call, whose arrays these are; its lanes are `lane` and the next.
  DenseStream(const CommContext& comm, std::uint32_t number, std::uint8_t lane, Links links,
              UpdateCall& call);
  ~DenseStream() override;

  Task send_all(StreamSource& unused, Status& outcome) override;
  Task receive_all(StreamTarget& unused, Status& outcome) override;
  Task drain() override;
  void abandon() override;

  // After a vote: the arrays keep the new values. Sets the call's outcome.
  void commit();

 private:
  std::size_t count_at(std::uint64_t first) const;
  bool is_near(int peer) const;
  void post_receive(const Buffer& used);
  Buffer receive_room(std::size_t bytes) const;
  void pass_on(const Buffer& message);
  Task take_credit(std::uint64_t first);
  void give_credit(std::uint64_t first);
  Buffer message_at(std::uint64_t first);
  void bring_forward(std::uint64_t first, std::size_t count);
  void hash_up_to(std::uint64_t end);
  Buffer last_message() const;
  Status take_last(const Buffer& message);
  Result<Buffer> message_of(const transport::Operation& received, std::size_t bytes) const;
  Status take_or_fail(std::uint64_t first, const Buffer& message, std::size_t count) noexcept;
  Status take(std::uint64_t first, const Buffer& message, std::size_t count);
  std::uint64_t write_early(std::uint64_t first, std::span<const std::byte> bytes, std::byte* log);
  void undo() noexcept;
  void write_kept(kernels::Output output) const;

  const CommContext& comm_;
  transport::Channel data_, credits_;
  Links links_;
  UpdateCall& call_;
  DenseArrays arrays_;
  DenseArrays snapshot_;  // root: empty, or brought forward
  std::size_t fragment_bytes_;
  std::uint64_t next_receive_ = 0;
  bool is_committed_ = false;
  std::uint64_t hashed_blocks_ = 0;
  Hash128 hash_;  // of the target
  bool has_hash_ = false;
  std::uint64_t version_ = 0;  // of the target
  std::deque<transport::OperationRef> receives_;
  std::deque<transport::OperationRef> sends_;
  std::vector<std::deque<transport::OperationRef>> awaited_credits_;  // of each near child
};

}  // namespace sparcl::collectives::broadcast

#include "bench/agreement/bare_broadcast.hpp"

#include "collectives/broadcast/message_stream.hpp"
#include "src/base/seeded_random.hpp"

namespace sparcl::bench {
namespace {

using comm::Task;

constexpr std::uint64_t kElementsPerStep = 8 * codec::kBlockElements;  // as the library's own
constexpr std::uint64_t kBlocksPerStep = 16;
constexpr std::uint8_t kData = 1, kVote = 2;

class Source final : public collectives::broadcast::StreamSource {
 public:
  Source(const codec::BlockMap& map, std::span<const std::byte* const> base,
         std::span<const std::byte* const> target)
      : encoder_(map, base, target, {}, kernels::cpu_kernels()) {}
  Status produce(codec::ByteSink& sink) override { return encoder_.step(kElementsPerStep, sink); }
  bool finished() const override { return encoder_.finished(); }
  void commit() override {}

 private:
  codec::UpdateEncoder encoder_;
};

class Target final : public collectives::broadcast::StreamTarget {
 public:
  Target(const codec::BlockMap& map, std::span<std::byte* const> held)
      : decoder_(map, held, codec::Verify::kTouched, {}, kernels::cpu_kernels(),
                 codec::Writing::kEarly) {}
  Status check(const Staging& stream, std::uint64_t available, bool& more) override {
    return decoder_.advance(stream, available, kBlocksPerStep, more);
  }
  Status finish(std::uint64_t stream_bytes) override { return decoder_.finish(stream_bytes); }
  Status commit(const Staging& stream) override { return decoder_.apply(stream); }

 private:
  codec::UpdateDecoder decoder_;
};

// run_broadcast() without its first round.
Task stream_and_vote(const comm::CommContext& comm, std::uint32_t number,
                     collectives::broadcast::BroadcastCall& call, std::uint64_t& stream_bytes) {
  comm::Engine& engine = *comm.engine;
  transport::Transport& transport = engine.transport();
  const collectives::broadcast::FanoutPlan plan = collectives::broadcast::plan_fanout(
      comm::link_cost(transport), transport.size(), comm::guess_update_bytes(call.dense_bytes),
      comm.broadcast_algorithm, comm.fragment_bytes);
  collectives::broadcast::MessageStream stream(
      engine, {number, kData}, plan.row->links(transport.rank(), call.root, transport.size()),
      plan.fragment_bytes);
  Status outcome, verdict;
  Task streaming = call.source != nullptr ? stream.send_all(*call.source, outcome)
                                          : stream.receive_all(*call.target, outcome);
  SPARCL_CO_RETURN_IF_ERROR(co_await streaming);
  Task vote = comm::agree(engine, {number, kVote}, {}, outcome, verdict);
  SPARCL_CO_RETURN_IF_ERROR(co_await vote);
  if (!verdict.ok()) co_return verdict;
  Task drained = stream.drain();
  Status done;
  if (call.source != nullptr) {
    call.source->commit();
  } else {
    done = call.target->commit(stream.bytes());
  }
  stream_bytes = stream.traffic().stream_bytes;
  SPARCL_CO_RETURN_IF_ERROR(co_await drained);
  for (const std::uint8_t lane : {kData, kVote}) transport.close({number, lane});
  co_return done;
}

const std::byte* bytes_of(const std::vector<std::uint16_t>& state) {
  return reinterpret_cast<const std::byte*>(state.data());
}

}  // namespace

Flip::Flip(std::size_t count, double density, bool is_root)
    : is_root_(is_root), array_{DataType::kBfloat16, count}, map_(std::span(&array_, 1)) {
  SeededRandom random(7);
  for (std::size_t i = 0; i < count; ++i)
    states_[0].push_back(static_cast<std::uint16_t>(random.next()));
  states_[1] = states_[0];
  states_[1][0] ^= 1;
  for (std::uint16_t& value : states_[1])
    value = static_cast<std::uint16_t>(value ^ (random.chance(density) ? 2 : 0));
  held_ = states_[0];
}

bool Flip::is_right() const { return is_root_ || held_ == states_[now_]; }

Task Flip::broadcast(const comm::CommContext& comm, std::uint32_t number, Agreement agreement) {
  collectives::broadcast::BroadcastCall call;
  call.fingerprint.count = array_.count;
  call.dense_bytes = map_.byte_count();
  const std::byte* base = bytes_of(states_[now_]);
  const std::byte* next = bytes_of(states_[1 - now_]);
  auto* held = reinterpret_cast<std::byte*>(held_.data());
  now_ = 1 - now_;
  Status status;
  if (is_root_) {
    Source source(map_, std::span(&base, 1), std::span(&next, 1));
    call.source = &source;
    Task sending = run(comm, number, agreement, call);
    status = co_await sending;
  } else {
    Target target(map_, std::span(&held, 1));
    call.target = &target;
    Task receiving = run(comm, number, agreement, call);
    status = co_await receiving;
  }
  co_return status;
}

Task Flip::run(const comm::CommContext& comm, std::uint32_t number, Agreement agreement,
               collectives::broadcast::BroadcastCall& call) {
  Status status;
  if (agreement == Agreement::kNone) {
    Task bare = stream_and_vote(comm, number, call, stream_bytes_);
    status = co_await bare;
  } else {
    call.encodes_ahead = agreement == Agreement::kOverlap;
    comm::CallReport report;
    Task whole = collectives::broadcast::run_broadcast(comm, number, call, report);
    status = co_await whole;
  }
  co_return status;
}

}  // namespace sparcl::bench

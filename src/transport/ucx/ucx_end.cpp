// The end of a communicator over UCX: no message is lost that a peer may still read.

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/failpoint.hpp"
#include "src/transport/ucx/ucx_transport.hpp"

namespace sparcl::transport {
namespace {

// A stage of the end; the next stage does not need it. It fails only if there is no memory.
template <class Stage>
void try_stage(Stage&& stage) noexcept {
  try {
    stage();
  } catch (const std::exception&) {
  }
}

}  // namespace

UcxTransport::~UcxTransport() {
  {
    const Lock held = worker().lock();
    for (auto at = worker().open_operations().begin(); at != worker().open_operations().end();) {
      const UcxOperationRef each = *at++;  // it may end here, and leave the list
      if (each->mailbox != mailbox_.get()) continue;
      each->done = true;
      if (each->kind == Operation::Kind::kReceive)
        ucp_request_cancel(worker().handle(), each->request);
    }
  }
  SPARCL_FAILPOINT("destroy.begin");
  const double deadline = now() + options_.departure_s;
  Lock held = worker().lock();
  try_stage([&] { say_departure(held, deadline); });
  SPARCL_FAILPOINT("destroy.departure");
  try_stage([&] {
    if (heartbeat_ != nullptr && heartbeat_.use_count() > 1) heartbeat_->retire();
  });
  heartbeat_.reset();
  try_stage([&] {
    worker().drop_messages(ucx_tag({}, mailbox_->first_id()), ucx_tag_mask(mailbox_->id_count()));
  });
  try_stage([&] { let_sends_end(held, deadline); });
  for (const Peer& peer : peers_) {
    if (peer.endpoint != nullptr) --peer.endpoint->users;
  }
  worker().close_until(deadline);
}

// A socket that is closed with unread bytes discards the bytes that its peer has not read yet.
// Peers that exchanged messages therefore wait for each other, for a while.
void UcxTransport::say_departure(Lock& held, double deadline) {
  std::vector<bool> told(peers_.size());
  for (;;) {
    take_words();
    take_losses();
    newly_lost_.clear();
    bool waits = false;
    for (Peer& peer : peers_) {
      if (peer.rank == rank_ || !peer.lost.ok()) continue;
      const auto index = static_cast<std::size_t>(peer.rank);
      if (!told[index] && (peer.talked || peer.has_departed)) {
        send_word(peer, UcxWord::Kind::kDeparture);
        told[index] = true;
      }
      waits = waits || (told[index] && !peer.has_departed);
    }
    if (!waits || now() >= deadline) return;
    if (worker().progress() == 0) sleep(held, std::min(deadline - now(), 0.01));
  }
}

// Their buffers are then free. Messages that a peer takes later, or never, stay with the worker.
void UcxTransport::let_sends_end(Lock& held, double deadline) {
  const auto is_waited_for = [&](const UcxOperationRef& each) {
    return each->mailbox == mailbox_.get() &&
           peers_[static_cast<std::size_t>(each->peer)].lost.ok();
  };
  const UcxOperations& open = worker().open_operations();
  while (std::any_of(open.begin(), open.end(), is_waited_for) && now() < deadline) {
    mailbox_->forget_news();
    if (worker().progress() == 0) sleep(held, std::min(deadline - now(), 0.01));
  }
}

}  // namespace sparcl::transport

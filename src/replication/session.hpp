#pragma once
// One connection of a server: gives its machine (session_machine.hpp) what comes in, and carries
// out what the machine asks for.

#include <optional>
#include <utility>

#include "src/replication/session_machine.hpp"

namespace sparcl::replication {

class Session {
 public:
  // from: nothing if it is not known. id: from 1, of this server's sessions. memory: for replicas
  // of this host; outlives the session.
  Session(net::Socket socket, std::optional<net::NetAddress> from, std::uint64_t id,
          const SessionContext& context, MemoryPieces& memory, SessionCounts& counts, double now);

  const SessionMachine& machine() const { return machine_; }
  int fd() const { return link_.fd(); }
  short events() const;
  bool is_over() const { return machine_.is_over(); }
  bool is_waiting() const { return machine_.is_unauthenticated() || machine_.is_leaving(); }

  // The feed of the tensors of machine().list(), or why there is none.
  void take_feed(Result<SessionFeedRef> feed, double now);

  // Reads what has come and answers; sends on.
  void step(double now);
  // By the clock alone.
  void tick(double now);
  void leave();  // says goodbye
  void drop(Status why);
  void release();  // its slot, and its position in the fan-out
  // The store has something new, or more of what is on its way.
  void publish(double now);
  // The same, in its next turn.
  void have_news() { has_news_ = true; }
  bool has_news() const { return has_news_; }
  // It is sent nothing for now, and its messages are read.
  bool is_paused() const { return is_paused_; }
  void pause(bool is_paused) {
    has_news_ = has_news_ || (is_paused_ && !is_paused);  // it has its turn
    is_paused_ = is_paused;
  }
  // True once, when it begins to be sent all bytes of a version.
  bool takes_copy() {
    return !std::exchange(is_sent_copy_, machine_.is_sent_copy()) && is_sent_copy_;
  }
  std::uint64_t take_sent_bytes() {  // since the call before, over the connection or as memory
    const std::uint64_t all = bytes_sent() + machine_.bytes_shared();
    return all - std::exchange(counted_bytes_, all);
  }
  // Bytes have come of which poll() does not tell.
  bool has_unread() const { return machine_.is_listening() && link_.has_unread(); }
  // It is to take its updates from here again.
  void call_back();
  // The update is of no use after all; sessions that send it end.
  void withdraw(const UpdateRef& update);

  // The number of the peer's secret (SecretRing); nothing: it has proven none.
  std::optional<int> secret() const { return is_secured_ ? std::optional(secret_) : std::nullopt; }
  std::uint64_t own_bytes() const { return charge_.bytes(); }  // of the budget of peers
  std::uint64_t bytes_sent() const { return link_.bytes_sent(); }

 private:
  void step_on(double now);
  void read(double now);
  bool note_secured();
  void warn_of_refusal();
  void break_off(MessageLink::Progress progress, double now);
  void send_on(double now);
  void carry_out();
  void carry_out(session_action::Any& action);
  bool has_room(std::size_t more);
  std::uint64_t memory() const;

  const SessionContext& context_;
  MessageLink link_;
  SessionMachine machine_;
  PeerBudget::Charge charge_;  // memory that this session alone causes
  bool has_news_ = false;
  int secret_ = 0;  // of the peer (PeerTag), once it is secured
  bool is_paused_ = false;
  bool is_sent_copy_ = false;
  std::uint64_t counted_bytes_ = 0;
  bool is_secured_ = false;  // the machine knows who the peer is, as far as that is proven
};

}  // namespace sparcl::replication

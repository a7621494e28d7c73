#include "src/replication/query.hpp"

#include <fmt/format.h>
#include <poll.h>

#include "src/net/name_lookup.hpp"
#include "src/replication/connect_text.hpp"
#include "src/replication/message_link.hpp"

namespace sparcl::replication {
namespace {

Result<MessageLink> connect_to(const net::NetAddress& address, const ClientSecurity& security,
                               double deadline) {
  SPARCL_ASSIGN_OR_RETURN(net::Socket socket, start_connect(address));
  send_at_once(socket);
  pollfd entry{socket.fd(), POLLOUT, 0};
  if (net::poll_until(std::span(&entry, 1), deadline) == 0)
    return Status(Code::kTimeout, "no answer to the connection in time");
  if (const int error = connect_error(socket); error != 0) return no_connection(error, "publisher");
  if (security.tls != nullptr) security.tls->look_again();
  return MessageLink(std::move(socket), security.tls);
}

// Any of its addresses.
Result<MessageLink> connect_to(const net::HostPort& where, const ClientSecurity& security,
                               double deadline) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<net::NetAddress> found, resolve_until(where, deadline));
  Status status;
  std::size_t left = found.size();  // a silent address must leave time for the others
  for (const net::NetAddress& each : found) {
    const double now = net::monotonic_seconds();
    Result<MessageLink> link =
        connect_to(each, security, now + (deadline - now) / static_cast<double>(left--));
    if (link.ok()) return link;
    status = link.status();
  }
  return status;
}

// The content of the answer.
Result<std::vector<std::byte>> hear(MessageLink& link, MessageType answer, double deadline) {
  const auto nowhere = [](const ChunkHead&, std::size_t) { return Buffer(); };
  while (true) {
    if (!link.flush()) return link.why();
    switch (link.receive(nowhere)) {
      case MessageLink::Progress::kMessage:
        if (link.type() == answer) return std::move(link.content());
        if (link.type() == MessageType::kRefusal && answer != MessageType::kProof) {
          const Result<Refusal> refusal = parse_refusal(link.content());
          return refusal.ok() ? Status(refusal->code, refusal->text) : refusal.status();
        }
        return Status(Code::kCorrupt, fmt::format("the answer is a message of type {}",
                                                  static_cast<int>(link.type())));
      case MessageLink::Progress::kMore:
        break;
      default:
        return link.why();
    }
    pollfd entry{link.fd(), link.events(), 0};
    if (net::poll_until(std::span(&entry, 1), deadline) == 0)
      return Status(Code::kTimeout,
                    "it takes connections, and does not answer in time: it is stopped, the link is "
                    "cut, or another program listens there. Look at the process at this address");
  }
}

Result<std::vector<std::byte>> ask(const std::string& address, MessageType question,
                                   std::span<const std::byte> content, MessageType answer,
                                   const ClientSecurity& security, double timeout_s) {
  SPARCL_ASSIGN_OR_RETURN(const net::HostPort where, net::parse_host_port(address));
  const double deadline = net::monotonic_seconds() + timeout_s;
  const std::string prefix = fmt::format("publisher {}: ", address);
  Result<MessageLink> link = connect_to(where, security, deadline);
  if (!link.ok()) return link.status().with_prefix(prefix);
  if (security.publisher_key) {
    const Result<std::vector<std::byte>> proof = hear(*link, MessageType::kProof, deadline);
    Status status =
        proof.ok() ? check_proof(*link, *proof, *security.publisher_key) : proof.status();
    if (status.code() == Code::kRemoteError) status = closed_in_handshake(status);
    SPARCL_RETURN_IF_ERROR(status.with_prefix(prefix));
  }
  link->allow(answer);
  link->queue(question, content);
  const Result<std::vector<std::byte>> heard = hear(*link, answer, deadline);
  if (heard.ok()) return heard;
  const bool is_closed = !link->is_open() && heard.status().code() == Code::kRemoteError;
  const bool is_early = is_closed && link->bytes_received() == 0 && !link->stream().is_refused();
  Status status = heard.status();
  const bool is_observer = question == MessageType::kStatusQuery;
  if (is_early && security.tls == nullptr)
    status =
        closed_before_answer(status, is_observer ? trust::Role::kObserve : trust::Role::kReplicate);
  if (is_early && security.tls != nullptr && !security.publisher_key)
    status = closed_without_certificates(status);
  return status.with_prefix(prefix);
}

}  // namespace

Result<std::string> query_status(const std::string& address, double timeout_s,
                                 const ClientSecurity& security) {
  SPARCL_ASSIGN_OR_RETURN(
      const std::vector<std::byte> answer,
      ask(address, MessageType::kStatusQuery, {}, MessageType::kStatusReply, security, timeout_s));
  return std::string(reinterpret_cast<const char*>(answer.data()), answer.size());
}

Result<ModelReply> query_model(const std::string& address, double timeout_s,
                               const LatestHeld& latest, const ClientSecurity& security) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> answer,
                          ask(address, MessageType::kModelQuery, serialise(latest),
                              MessageType::kModelReply, security, timeout_s));
  return parse_model_reply(answer);
}

}  // namespace sparcl::replication

// Messages about the two sides of a connection: who they are, what they hold, whom they take
// updates from.

#include <string_view>

#include "src/replication/message_fields.hpp"

namespace sparcl::replication {
namespace {

// A signature of a description must not be valid for a commit or for anything else.
constexpr std::string_view kModelContext = "sparcl model 1\n";
constexpr std::string_view kSessionContext = "sparcl session 1\n";

// If the peer has another version of the protocol, only its number is read: the answer names both.
template <class Message>
std::optional<Message> of_another_version(std::span<const std::byte> bytes) {
  Message message;
  if (!ByteReader(bytes).read(message.protocol) || message.protocol == kProtocolVersion) return {};
  return message;
}

void write_latest(ByteWriter& out, const LatestHeld& latest) {
  out.write(latest.epoch);
  out.write(latest.version);
  write_flag(out, latest.proof.has_value());
  if (latest.proof) write_offer(out, *latest.proof);
}

bool read_latest(ByteReader& bytes, LatestHeld& latest) {
  bool has_proof = false;
  if (!bytes.read(latest.epoch) || !bytes.read(latest.version) || !read_flag(bytes, has_proof))
    return false;
  return !has_proof || read_offer(bytes, latest.proof.emplace());
}

void write_model(ByteWriter& out, const ModelReply& model) {
  write_text(out, model.model_id);
  write_blob(out, model.schema);
  write_blob(out, model.description);
  out.write(model.epoch);
}

}  // namespace

std::vector<std::byte> serialise(const Hello& hello) {
  ByteWriter out;
  out.write(hello.protocol);
  write_text(out, hello.model_id);
  write_hash(out, hello.schema_hash);
  out.write(hello.wire_version);
  write_held(out, hello.held);
  write_held(out, hello.tip);
  out.write(hello.ahead);
  out.write(hello.silence_ms);
  out.write(hello.port);
  write_flag(out, hello.shares_memory);
  write_text(out, hello.name);
  out.write(hello.pin);
  write_flag(out, hello.damaged);
  write_flag(out, hello.held_is_vouched);
  write_flag(out, hello.tip_is_vouched);
  write_flag(out, hello.holds_copy);
  write_latest(out, hello.latest);
  out.write_bytes(hello.receipt);
  write_flag(out, hello.gives_bytes);
  write_flag(out, hello.takes_bytes);
  write_flag(out, hello.only_told);
  return out.take();
}

Result<Hello> parse_hello(std::span<const std::byte> bytes) {
  if (std::optional<Hello> other = of_another_version<Hello>(bytes)) return *std::move(other);
  return parse_message<Hello>(bytes, "a hello", [](ByteReader& in, Hello& hello) {
    return in.read(hello.protocol) && read_text(in, hello.model_id) &&
           read_hash(in, hello.schema_hash) && in.read(hello.wire_version) &&
           read_held(in, hello.held) && read_held(in, hello.tip) && in.read(hello.ahead) &&
           in.read(hello.silence_ms) && in.read(hello.port) && read_flag(in, hello.shares_memory) &&
           read_text(in, hello.name) && in.read(hello.pin) && read_flag(in, hello.damaged) &&
           read_flag(in, hello.held_is_vouched) && read_flag(in, hello.tip_is_vouched) &&
           read_flag(in, hello.holds_copy) && read_latest(in, hello.latest) &&
           read_array(in, hello.receipt) && read_flag(in, hello.gives_bytes) &&
           read_flag(in, hello.takes_bytes) && read_flag(in, hello.only_told);
  });
}

std::vector<std::byte> signed_session(std::span<const std::byte> exporter) {
  ByteWriter out;
  out.write_bytes(std::as_bytes(std::span(kSessionContext)));
  out.write_bytes(exporter);
  return out.take();
}

std::vector<std::byte> serialise(const SessionProof& proof) {
  ByteWriter out;
  out.write_bytes(proof.key);
  out.write_bytes(proof.signature);
  return out.take();
}

Result<SessionProof> parse_session_proof(std::span<const std::byte> bytes) {
  return parse_message<SessionProof>(bytes, "a proof", [](ByteReader& in, SessionProof& proof) {
    return read_array(in, proof.key) && read_array(in, proof.signature);
  });
}

std::vector<std::byte> serialise(const Welcome& welcome) {
  ByteWriter out;
  out.write(welcome.protocol);
  write_text(out, welcome.model_id);
  out.write(welcome.epoch);
  out.write(welcome.newest);
  out.write(welcome.silence_ms);
  write_text(out, welcome.name);
  write_flag(out, welcome.memory.has_value());
  if (welcome.memory) {
    out.write(welcome.memory->pid);
    out.write(welcome.memory->descriptor);
    out.write_bytes(welcome.memory->token);
  }
  out.write_bytes(welcome.receipt);
  write_flag(out, welcome.relay_key.has_value());
  if (welcome.relay_key) out.write_bytes(*welcome.relay_key);
  return out.take();
}

Result<Welcome> parse_welcome(std::span<const std::byte> bytes) {
  if (std::optional<Welcome> other = of_another_version<Welcome>(bytes)) return *std::move(other);
  return parse_message<Welcome>(bytes, "a welcome", [](ByteReader& in, Welcome& welcome) {
    bool has_memory = false, has_relay_key = false;
    if (!in.read(welcome.protocol) || !read_text(in, welcome.model_id) || !in.read(welcome.epoch) ||
        !in.read(welcome.newest) || !in.read(welcome.silence_ms) || !read_text(in, welcome.name) ||
        !read_flag(in, has_memory))
      return false;
    if (has_memory) {
      MemoryInvitation& memory = welcome.memory.emplace();
      if (!in.read(memory.pid) || !in.read(memory.descriptor) || !read_array(in, memory.token))
        return false;
    }
    if (!read_array(in, welcome.receipt) || !read_flag(in, has_relay_key)) return false;
    return !has_relay_key || read_array(in, welcome.relay_key.emplace());
  });
}

std::vector<std::byte> serialise(const Refusal& refusal) {
  ByteWriter out;
  out.write(static_cast<std::uint32_t>(refusal.code));
  write_text(out, refusal.text);
  return out.take();
}

Result<Refusal> parse_refusal(std::span<const std::byte> bytes) {
  return parse_message<Refusal>(bytes, "a refusal", [](ByteReader& in, Refusal& refusal) {
    return read_code(in, refusal.code) && read_text(in, refusal.text);
  });
}

std::vector<std::byte> serialise(const Alive& alive) {
  ByteWriter out;
  out.write(alive.version);
  return out.take();
}

Result<Alive> parse_alive(std::span<const std::byte> bytes) {
  return parse_message<Alive>(bytes, "a sign of life",
                              [](ByteReader& in, Alive& alive) { return in.read(alive.version); });
}

std::vector<std::byte> serialise(const Bye& bye) {
  ByteWriter out;
  write_flag(out, bye.begins_anew);
  return out.take();
}

Result<Bye> parse_bye(std::span<const std::byte> bytes) {
  if (bytes.empty()) return Bye();
  return parse_message<Bye>(
      bytes, "a goodbye", [](ByteReader& in, Bye& bye) { return read_flag(in, bye.begins_anew); });
}

std::vector<std::byte> serialise(const Pin& pin) {
  ByteWriter out;
  out.write(pin.version);
  return out.take();
}

Result<Pin> parse_pin(std::span<const std::byte> bytes) {
  return parse_message<Pin>(bytes, "a pin",
                            [](ByteReader& in, Pin& pin) { return in.read(pin.version); });
}

std::vector<std::byte> serialise(const ModelReply& model) {
  ByteWriter out;
  write_model(out, model);
  write_signatures(out, model.signatures);
  return out.take();
}

std::vector<std::byte> signed_text(const ModelReply& model) {
  ByteWriter out;
  out.write_bytes(std::as_bytes(std::span(kModelContext)));
  write_model(out, model);
  return out.take();
}

std::vector<std::byte> serialise(const LatestHeld& latest) {
  ByteWriter out;
  write_latest(out, latest);
  return out.take();
}

Result<LatestHeld> parse_model_query(std::span<const std::byte> bytes) {
  if (bytes.empty()) return LatestHeld();
  return parse_message<LatestHeld>(bytes, "a question for the model", read_latest);
}

Result<ModelReply> parse_model_reply(std::span<const std::byte> bytes) {
  return parse_message<ModelReply>(
      bytes, "the description of a model", [](ByteReader& in, ModelReply& model) {
        return read_text(in, model.model_id) && read_blob(in, model.schema) &&
               read_blob(in, model.description) && in.read(model.epoch) &&
               read_signatures(in, model.signatures);
      });
}

std::vector<std::byte> serialise(const Parent& parent) {
  ByteWriter out;
  out.write(parent.number);
  write_flag(out, parent.address.has_value());
  if (parent.address) {
    write_ip(*parent.address, out);
    out.write(parent.address->port);
  }
  write_text(out, parent.name);
  write_flag(out, parent.ticket.has_value());
  if (parent.ticket) {
    out.write_bytes(parent.ticket->nonce);
    out.write_bytes(parent.ticket->key);
  }
  write_flag(out, parent.gives_bytes);
  return out.take();
}

Result<Parent> parse_parent(std::span<const std::byte> bytes) {
  return parse_message<Parent>(bytes, "a parent", [](ByteReader& in, Parent& parent) {
    bool is_replica = false, has_ticket = false;
    if (!in.read(parent.number) || !read_flag(in, is_replica)) return false;
    if (is_replica) {
      net::NetAddress& address = parent.address.emplace();
      if (!read_ip(in, address) || !in.read(address.port) || address.port == 0) return false;
    }
    if (!read_text(in, parent.name) || !read_flag(in, has_ticket)) return false;
    if (has_ticket) {
      RelayTicket& ticket = parent.ticket.emplace();
      if (!read_array(in, ticket.nonce) || !read_array(in, ticket.key)) return false;
    }
    return read_flag(in, parent.gives_bytes) && (is_replica || !parent.gives_bytes);
  });
}

std::vector<std::byte> serialise(const Orphan& orphan) {
  ByteWriter out;
  out.write(orphan.number);
  write_held(out, orphan.tip);
  out.write(orphan.ahead);
  out.write(static_cast<std::uint32_t>(orphan.code));
  write_text(out, orphan.text);
  write_flag(out, orphan.tip_is_vouched);
  return out.take();
}

Result<Orphan> parse_orphan(std::span<const std::byte> bytes) {
  return parse_message<Orphan>(bytes, "an orphan", [](ByteReader& in, Orphan& orphan) {
    std::uint32_t code = 0;
    if (!in.read(orphan.number) || !read_held(in, orphan.tip) || !in.read(orphan.ahead) ||
        !in.read(code))
      return false;
    if (!is_code(static_cast<int>(code))) return false;
    orphan.code = static_cast<Code>(code);
    return read_text(in, orphan.text) && read_flag(in, orphan.tip_is_vouched);
  });
}

}  // namespace sparcl::replication

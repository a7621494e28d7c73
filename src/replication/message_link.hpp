#pragma once
// Messages over a stream socket that never blocks. The bytes of chunks go straight to where they
// belong, and leave from where they lie.

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/buffer.hpp"
#include "src/net/secure_socket.hpp"
#include "src/replication/message.hpp"

namespace sparcl::replication {

// One that many are told: its content is shared, and summed up once.
struct WholeMessage {
  WholeMessage(MessageType type, std::span<const std::byte> bytes);
  std::array<std::byte, kHeadBytes> head;
  Buffer content;
};

class MessageLink {
 public:
  // kClosed: the other side is gone; kCorrupt: what came is no message, and nothing after it can be
  // read. Both for good. kNoRoom: the message that is coming is larger than there is room for, and
  // nothing after it can be read.
  enum class Progress : std::uint8_t { kMessage, kMore, kClosed, kCorrupt, kNoRoom };
  // Gives the memory for the `count` bytes of a chunk, which is kept until the chunk is there;
  // empty: the bytes are not wanted.
  using ChunkDestination = std::function<Buffer(const ChunkHead& chunk, std::size_t count)>;

  MessageLink() = default;
  // endpoint: of TLS; nullptr: messages are sent in the clear.
  explicit MessageLink(net::Socket socket, net::TlsEndpointRef endpoint = nullptr)
      : socket_(std::move(socket), std::move(endpoint)) {}

  bool is_open() const { return socket_.is_open(); }
  int fd() const { return socket_.fd(); }
  const net::Socket& socket() const { return socket_.socket(); }
  const net::SecureSocket& stream() const { return socket_; }
  short events() const;  // for poll()
  void close() { socket_.close(); }
  int connect_failure() const {
    return connect_error(socket_.socket());
  }  // of start_connect(), once writable

  // Messages larger than kMaxMessageBytes, but for chunks, are corrupt unless they are of this
  // type: what was asked for; and then have at most so many bytes.
  void allow(MessageType large, std::size_t max_bytes = SIZE_MAX) {
    allowed_ = large;
    allowed_bytes_ = max_bytes;
  }
  // Those of this type are read, and nothing of them is kept.
  void skip(MessageType type) { skipped_ = type; }
  // Asked before a message takes so many bytes more, from the second piece of it on; false: it does
  // not come. Empty: any may.
  void set_room(std::function<bool(std::size_t more)> room) { room_ = std::move(room); }
  // Reads on, as far as one message. After kMessage: type() and content(), or chunk() with its
  // bytes at their destination.
  Progress receive(const ChunkDestination& destination);
  MessageType type() const { return head_.type; }
  std::vector<std::byte>& content() { return content_; }  // may be taken
  const ChunkHead& chunk() const { return chunk_; }
  std::size_t chunk_bytes() const { return head_.content_bytes - kChunkHeadBytes; }
  bool chunk_has_destination() const {
    return !chunk_destination_.bytes().empty();
  }  // else it was not wanted when it began

  // Queues; nothing is copied of a chunk.
  void queue(MessageType type, std::span<const std::byte> content);
  template <class Message>
  void queue(MessageType type, const Message& message) {
    queue(type, std::span<const std::byte>(serialise(message)));
  }
  void queue(const WholeMessage& message);
  void queue_chunk(const ChunkHead& chunk, Buffer bytes);
  std::size_t queued_bytes() const { return queued_bytes_; }
  // Memory of this connection alone: what came, and what is queued but for bytes that are shared.
  std::size_t own_bytes() const {
    return content_.capacity() + own_queued_bytes_ + socket_.own_bytes();
  }
  // Sends what is queued, and goes on with a handshake. False: the other side is gone.
  bool flush();
  // Sends what is queued, and waits until the other side has closed: at most so many seconds. To
  // close earlier, with bytes unread, would have the system throw away what the other side has not
  // read yet.
  void finish(double seconds);
  // receive() has more, and poll() does not say so.
  bool has_unread() const { return socket_.has_unread(); }
  // Bytes have come since the connection began: a part of a message, or of a record of TLS, is one.
  std::uint64_t heard_bytes() const { return socket_.bytes_received(); }
  // Closed, and nothing of what came or was queued is kept.
  void close_and_forget();

  const Status& why() const { return why_; }  // kClosed, kCorrupt, or a flush() that failed
  // Those that the system has taken, never more: a link must stay until its last bytes have left.
  std::uint64_t bytes_sent() const {
    return bytes_sent_ - std::min<std::uint64_t>(bytes_sent_, socket_.waiting_bytes());
  }
  std::uint64_t bytes_received() const { return bytes_received_; }

 private:
  struct Outgoing {
    std::vector<std::byte> head;  // of the message, and all of a small one
    Buffer bytes;
  };

  Progress fail(const net::Moved& step);
  Progress corrupt(Status why);
  Progress begin_content(const ChunkDestination& destination);
  Status check_size() const;
  void read_into_content(std::size_t bytes);
  void go_on_in_content(std::size_t more);
  void note_queued(const Outgoing& next);
  bool content_is_whole() const;

  net::SecureSocket socket_;
  Status why_;

  // The message that is coming in.
  MessageType allowed_ = MessageType::kAlive;
  std::size_t allowed_bytes_ = SIZE_MAX;
  std::optional<MessageType> skipped_;
  std::function<bool(std::size_t more)> room_;
  std::array<std::byte, kHeadBytes + kChunkHeadBytes> fixed_{};
  std::size_t fixed_bytes_ = 0;  // of these that are there
  bool has_head_ = false;
  bool has_chunk_ = false;
  MessageHead head_;
  ChunkHead chunk_;
  std::vector<std::byte> content_;
  Buffer chunk_destination_;
  std::span<std::byte> destination_;  // of the rest, or what there is room for yet
  std::size_t filled_ = 0;            // that is there
  std::size_t content_to_come_ = 0;   // after `destination_`
  std::uint32_t skipped_crc_ = 0;     // of what is kept no more
  bool is_read_ = false;              // it was given to the caller

  std::deque<Outgoing> out_;
  std::size_t sent_ = 0;  // of the first in out_
  std::size_t queued_bytes_ = 0;
  std::size_t own_queued_bytes_ = 0;  // heads
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t bytes_received_ = 0;
};

// Unauthorized: the content of a PROOF does not sign this connection by the key.
Status check_proof(const MessageLink& link, std::span<const std::byte> content,
                   const trust::PublicKey& key);

}  // namespace sparcl::replication

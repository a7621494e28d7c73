#include "src/replication/message_link.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "src/base/checksum.hpp"

namespace sparcl::replication {
namespace {

constexpr std::size_t kAhead = std::size_t{64}
                               << 10;  // memory for bytes that have not come, at most
constexpr std::size_t kGrowth = 4;     // times what is there, and not more than will be; heuristic
constexpr std::size_t kKeptContent =
    std::size_t{4} << 10;  // of a message that is read, for the next one; heuristic

}  // namespace

WholeMessage::WholeMessage(MessageType type, std::span<const std::byte> bytes)
    : head(serialise(MessageHead{type, static_cast<std::uint32_t>(bytes.size()), crc32c(bytes)})),
      content(Buffer::allocate(bytes.size())) {
  std::ranges::copy(bytes, content.data());
}

short MessageLink::events() const {
  const bool writes =
      socket_.is_ready() ? !out_.empty() || socket_.wants_to_write() : socket_.wants_to_write();
  return static_cast<short>(POLLIN | (writes ? POLLOUT : 0));
}

MessageLink::Progress MessageLink::fail(const net::Moved& step) {
  const bool in_message = fixed_bytes_ > 0 && !is_read_;
  std::string text =
      fmt::format("the connection was closed{}", in_message ? " inside a message" : "");
  if (!socket_.is_ready()) text = "the connection was closed during the TLS handshake";
  if (step.error != 0)
    text = fmt::format("the connection failed: {}",
                       socket_.failure().empty() ? error_text(step.error) : socket_.failure());
  why_ = Status(Code::kRemoteError, std::move(text));
  socket_.close();
  return Progress::kClosed;
}

MessageLink::Progress MessageLink::corrupt(Status why) {
  why_ = std::move(why);
  socket_.close();
  return Progress::kCorrupt;
}

MessageLink::Progress MessageLink::begin_content(const ChunkDestination& destination) {
  if (!has_head_) {
    Result<MessageHead> head = parse_head(std::span(fixed_).first(kHeadBytes));
    if (!head.ok()) return corrupt(head.status());
    head_ = *head;
    has_head_ = true;
    has_chunk_ = head_.type != MessageType::kChunk;
    if (!has_chunk_ && head_.content_bytes <= kChunkHeadBytes) {
      return corrupt(Status(
          Code::kCorrupt, fmt::format("a chunk of {} bytes carries nothing", head_.content_bytes)));
    }
    if (!has_chunk_) return Progress::kMore;  // its head first
    if (Status status = check_size(); !status.ok()) return corrupt(std::move(status));
    read_into_content(head_.content_bytes);
  } else {
    has_chunk_ = true;
    const Result<ChunkHead> chunk = parse_chunk_head(std::span(fixed_).subspan(kHeadBytes));
    if (!chunk.ok()) return corrupt(chunk.status());
    chunk_ = *chunk;
    const std::uint64_t in_piece = chunk_.first_byte % kMaxChunkBytes;
    if (in_piece + chunk_bytes() > kMaxChunkBytes) {
      return corrupt(Status(Code::kCorrupt,
                            fmt::format("a chunk of {} bytes at byte {} crosses a multiple of {}",
                                        chunk_bytes(), chunk_.first_byte, kMaxChunkBytes)));
    }
    chunk_destination_ = destination(chunk_, chunk_bytes());
    destination_ = chunk_destination_.bytes();
    content_to_come_ = filled_ = 0;
    if (destination_.empty()) read_into_content(chunk_bytes());
  }
  return Progress::kMore;
}

Status MessageLink::check_size() const {
  if (head_.content_bytes <= kMaxMessageBytes) return {};
  const auto type = static_cast<int>(head_.type);
  if (head_.type != allowed_) {
    return Status(Code::kCorrupt,
                  fmt::format("a message of type {} with {} bytes, which was not asked for", type,
                              head_.content_bytes));
  }
  if (head_.content_bytes <= allowed_bytes_) return {};
  return Status(Code::kCorrupt,
                fmt::format("a message of type {} claims {} bytes, where at most {} can be of use",
                            type, head_.content_bytes, allowed_bytes_));
}

void MessageLink::read_into_content(std::size_t bytes) {
  content_ = std::vector<std::byte>(std::min(bytes, kAhead));
  destination_ = content_;
  filled_ = 0;
  content_to_come_ = bytes - content_.size();
  skipped_crc_ = 0;
}

// Memory comes with the bytes: what a head claims costs nothing.
void MessageLink::go_on_in_content(std::size_t more) {
  content_to_come_ -= more;
  if (head_.type == skipped_) {
    skipped_crc_ = crc32c(content_, skipped_crc_);
    filled_ = 0;
    content_.resize(more);
  } else {
    const std::size_t bytes = content_.size() + more;
    if (bytes > content_.capacity())
      content_.reserve(std::min(bytes + content_to_come_, kGrowth * bytes));
    content_.resize(bytes);
  }
  destination_ = content_;
}

bool MessageLink::content_is_whole() const {
  const std::uint32_t head_crc = head_.type == MessageType::kChunk
                                     ? crc32c(std::span(fixed_).subspan(kHeadBytes))
                                     : skipped_crc_;
  return crc32c(destination_, head_crc) == head_.content_crc;
}

MessageLink::Progress MessageLink::receive(const ChunkDestination& destination) {
  if (is_read_) {
    is_read_ = has_head_ = has_chunk_ = false;
    fixed_bytes_ = filled_ = 0;
    destination_ = {};
    chunk_destination_ = Buffer();
    if (content_.capacity() > kKeptContent) content_ = std::vector<std::byte>();
  }
  while (true) {
    const std::size_t fixed =
        has_head_ && head_.type == MessageType::kChunk ? fixed_.size() : kHeadBytes;
    const bool in_fixed = fixed_bytes_ < fixed;
    const std::span<std::byte> wanted =
        in_fixed ? std::span(fixed_).subspan(fixed_bytes_, fixed - fixed_bytes_)
                 : destination_.subspan(filled_);
    if (!wanted.empty()) {
      const net::Moved step = socket_.read(wanted);
      if (step.kind == net::Moved::Kind::kWouldBlock) return Progress::kMore;
      if (step.kind == net::Moved::Kind::kClosed) return fail(step);
      bytes_received_ += step.bytes;
      (in_fixed ? fixed_bytes_ : filled_) += step.bytes;
      if (in_fixed && fixed_bytes_ == fixed) {
        if (const Progress begun = begin_content(destination); begun != Progress::kMore)
          return begun;
      }
    }
    if (!has_head_ || !has_chunk_ || filled_ < destination_.size()) continue;
    const std::size_t more = std::min(content_to_come_, kAhead);
    if (more == 0) break;
    if (head_.type != skipped_ && room_ && !room_(more)) return Progress::kNoRoom;
    go_on_in_content(more);
  }
  if (!content_is_whole()) return corrupt(Status(Code::kCorrupt, "a message is damaged (CRC32C)"));
  is_read_ = true;
  return Progress::kMessage;
}

void MessageLink::queue(MessageType type, std::span<const std::byte> content) {
  const std::array<std::byte, kHeadBytes> head =
      serialise(MessageHead{type, static_cast<std::uint32_t>(content.size()), crc32c(content)});
  Outgoing& next = out_.emplace_back();
  next.head.assign(head.begin(), head.end());
  next.head.insert(next.head.end(), content.begin(), content.end());
  note_queued(next);
}

void MessageLink::queue(const WholeMessage& message) {
  Outgoing& next = out_.emplace_back();
  next.head.assign(message.head.begin(), message.head.end());
  next.bytes = message.content;
  note_queued(next);
}

void MessageLink::queue_chunk(const ChunkHead& chunk, Buffer bytes) {
  const std::array<std::byte, kChunkHeadBytes> chunk_head = serialise(chunk);
  const std::array<std::byte, kHeadBytes> head = serialise(
      MessageHead{MessageType::kChunk, static_cast<std::uint32_t>(kChunkHeadBytes + bytes.size()),
                  crc32c(bytes.bytes(), crc32c(chunk_head))});
  Outgoing& next = out_.emplace_back();
  next.head.assign(head.begin(), head.end());
  next.head.insert(next.head.end(), chunk_head.begin(), chunk_head.end());
  next.bytes = std::move(bytes);
  note_queued(next);
}

void MessageLink::note_queued(const Outgoing& next) {
  queued_bytes_ += next.head.size() + next.bytes.size();
  own_queued_bytes_ += next.head.size();
}

void MessageLink::finish(double seconds) {
  const double end = net::monotonic_seconds() + seconds;
  bool is_ended = false;
  std::array<std::byte, 16384> unread;
  while (flush()) {
    if (!is_ended && events() == POLLIN) is_ended = ::shutdown(fd(), SHUT_WR) == 0;
    pollfd entry{fd(), static_cast<short>(events() | POLLIN), 0};
    const double left = end - net::monotonic_seconds();
    if (left <= 0 || ::poll(&entry, 1, static_cast<int>(left * 1000) + 1) < 0) return;
    if ((entry.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    const ssize_t got = ::recv(fd(), unread.data(), unread.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
  }
}

void MessageLink::close_and_forget() {
  socket_.close();
  content_ = std::vector<std::byte>();
  destination_ = {};
  chunk_destination_ = Buffer();
  out_.clear();
  queued_bytes_ = own_queued_bytes_ = 0;
}

bool MessageLink::flush() {
  if (!socket_.is_open()) return why_.ok();
  constexpr std::size_t kMaxPieces = 16;
  while (!out_.empty()) {
    std::array<iovec, kMaxPieces> pieces;
    std::size_t count = 0;
    std::size_t skip = sent_;
    const auto add = [&](std::byte* data, std::size_t bytes) {
      const std::size_t skipped = std::min(skip, bytes);
      skip -= skipped;
      if (bytes > skipped) pieces[count++] = {data + skipped, bytes - skipped};
    };
    for (auto each = out_.begin(); each != out_.end() && count + 2 <= kMaxPieces; ++each) {
      add(each->head.data(), each->head.size());
      if (each->bytes.size() > 0) add(each->bytes.data(), each->bytes.size());
    }
    const net::Moved step = socket_.write(std::span(pieces).first(count));
    if (step.kind == net::Moved::Kind::kWouldBlock) return true;
    if (step.kind == net::Moved::Kind::kClosed) {
      (void)fail(step);
      return false;
    }
    bytes_sent_ += step.bytes;
    queued_bytes_ -= step.bytes;
    sent_ += step.bytes;
    while (!out_.empty() && sent_ >= out_.front().head.size() + out_.front().bytes.size()) {
      sent_ -= out_.front().head.size() + out_.front().bytes.size();
      own_queued_bytes_ -= out_.front().head.size();
      out_.pop_front();
    }
  }
  const net::Moved step = socket_.flush();
  if (step.kind == net::Moved::Kind::kClosed) (void)fail(step);
  return step.kind != net::Moved::Kind::kClosed;
}

Status check_proof(const MessageLink& link, std::span<const std::byte> content,
                   const trust::PublicKey& key) {
  SPARCL_ASSIGN_OR_RETURN(const SessionProof proof, parse_session_proof(content));
  SPARCL_ASSIGN_OR_RETURN(const net::SecureSocket::Exporter exporter, link.stream().exporter());
  if (proof.key == key && trust::is_signature(proof.signature, signed_session(exporter), key))
    return {};
  return Status(Code::kUnauthorized,
                fmt::format("it does not prove the key {} that the secret names: another program "
                            "answers there",
                            trust::fingerprint(key)));
}

}  // namespace sparcl::replication

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/files/atomic_file.hpp"
#include "src/codec/update.hpp"

namespace sparcl::model {

// Takes an encoder's bytes, which knows no errors: they are kept.
class DeltaSink : public codec::ByteSink {
 public:
  virtual const Status& status() const = 0;
};

// Counts them.
class CountingSink final : public DeltaSink {
 public:
  std::byte* reserve(std::size_t bytes) override {
    if (buffer_.size() < bytes) buffer_.resize(bytes);
    return buffer_.data();
  }
  void commit(std::size_t used) override { bytes_ += used; }
  const Status& status() const override { return status_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::vector<std::byte> buffer_;
  std::uint64_t bytes_ = 0;
  Status status_;
};

// Gathers them into large writes.
class FileSink final : public DeltaSink {
 public:
  explicit FileSink(AtomicFile& file) : file_(file), buffer_(kBufferBytes) {}

  std::byte* reserve(std::size_t bytes) override {
    if (used_ + bytes > buffer_.size()) write_out();
    if (bytes > buffer_.size()) buffer_.resize(bytes);
    return buffer_.data() + used_;
  }
  void commit(std::size_t used) override { used_ += used; }

  Status flush() {
    write_out();
    return status_;
  }
  const Status& status() const override { return status_; }

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{4} << 20;

  void write_out() {
    if (status_.ok()) status_ = file_.write({buffer_.data(), used_});
    used_ = 0;
  }

  AtomicFile& file_;
  std::vector<std::byte> buffer_;
  std::size_t used_ = 0;
  Status status_;
};

}  // namespace sparcl::model

#pragma once
// Files acks/NAME in a folder of versions: each has the number of the version that the reader NAME
// holds, and a newline. A reader replaces its file as a whole.

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/repeated_messages.hpp"
#include "src/base/status.hpp"

namespace sparcl::tool {

// What is wrong with the name of a reader; "": nothing. It is one part of a path, from letters,
// digits, '.', '-' and '_', and does not begin with a dot.
std::string reader_name_fault(const std::string& name);

std::string acknowledgement_folder(const std::string& folder);
std::string acknowledgement_path(const std::string& folder, const std::string& reader);

// Untrusted input. SystemError: there is no such file, or it cannot be read. Corrupt: it holds
// something else than a number and a newline.
Result<std::uint64_t> read_acknowledgement(const std::string& path);

// Makes the folder of acknowledgements if it is missing.
Status write_acknowledgement(const std::string& folder, const std::string& reader,
                             std::uint64_t version);

// Writes the file of one reader. For one thread.
class Acknowledger {
 public:
  Acknowledger(std::string folder, std::string reader)
      : folder_(std::move(folder)), reader_(std::move(reader)) {}

  // What was read from `path` is the reader's newest state. Its number is the last one in the name;
  // a path without a number is not acknowledged.
  void note(const std::string& path);
  // Acknowledges what was noted last. A failure is a warning, and a later call tries again.
  void write(double now);

 private:
  std::string folder_, reader_;
  std::optional<std::uint64_t> noted_;  // not yet written
  double retry_at_ = 0;
  RepeatedMessages troubles_;
};

}  // namespace sparcl::tool

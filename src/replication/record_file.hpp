#pragma once
// A small file that a publisher or a replica keeps for its next life: lines "NAME VALUE" with a
// checksum, replaced whole.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::replication {

using RecordFields = std::vector<std::pair<std::string, std::string>>;  // values without line ends

// kind: the first line, which says what the file is.
Status write_record(const std::string& path, std::string_view kind, const RecordFields& fields);

// Nothing: there is no such file. Corrupt: it is damaged, or another kind of file. SystemError: it
// cannot be read.
Result<std::optional<RecordFields>> read_record(const std::string& path, std::string_view kind);

// The value of a field; empty where there is none.
std::string field_of(const RecordFields& fields, std::string_view name);

}  // namespace sparcl::replication

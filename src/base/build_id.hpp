#pragma once
// Identifies the build. Libraries that pass C++ objects to each other must come from one build.

namespace sparcl {

// "0.1.0-" and a checksum of the compiler, its flags, and the sources that pass
// between the libraries (cmake/SparclBuildId.cmake).
const char* build_id();

}  // namespace sparcl

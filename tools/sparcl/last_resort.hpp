#pragma once
// The end of the program when nothing can be thrown any more. An exception that leaves a destructor
// (nlohmann::json's takes memory), a static object or a thread would be an abort(). Instead the
// program says what happened, removes its temporary files, and exits with code 1.

namespace sparcl::tool {

// "sparcl: error: out of memory ..." on standard error, and with --json in the arguments its JSON
// on standard output. Takes no memory. Returns the exit code.
int print_out_of_memory() noexcept;

}  // namespace sparcl::tool

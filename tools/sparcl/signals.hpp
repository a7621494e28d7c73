#pragma once

namespace sparcl::tool {

// From now on SIGINT, SIGTERM and SIGHUP remove unfinished output before they end the process, as
// they would have. Call it before any other thread starts. SIGXFSZ becomes an error of the write.
void clean_up_on_signals();

// For a command that runs until it is told to stop. From now on the first of these signals is only
// a request to stop; the second ends the process as above.
void stop_on_signals();
bool stop_is_asked();
// Sleeps so long, or until a stop is asked for. Returns whether it is.
bool wait_for_stop(double seconds);

}  // namespace sparcl::tool

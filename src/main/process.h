// What every daemon's process does at its start, before its loop runs.
#pragma once

#include "base/error.h"
#include "base/fd.h"

namespace process {

// Each connection is a descriptor or more: as many as the process may have.
void raise_file_limit();

// Secrets pass through this process: no file has its memory, and nobody but root reads it.
void hide_memory();

// SIGTERM and SIGINT as a descriptor; SIGPIPE is ignored.
base::Result<base::Fd> catch_signals();
// Takes the one that made the descriptor ready.
void take_signal(int signals);

}  // namespace process

# Try an experiment without a GPU and without a framework: the server is aicplan's own, which
# answers after exact delays. The ranks cost it nothing, so tensor parallelism changes no figure.
#
#   aicplan apply plans/experiments/try.hcl --out-dir results

variable "aicplan" { default = "aicplan" } # the program, with its path if it is not in PATH

runtime "server" {
  kind    = "server"
  model   = "mock"
  command = [var.aicplan, "mock-server", "--listen", "{host}:{port}", "--ttft", "20ms", "--itl", "2ms"]
  labels  = ["experiment_id", "tensor_parallel_size"]
  ready { within = "20s" }
}

grid "cells" {
  op = "completions"

  rows "cell" {
    values = [
      { experiment_id = "E0.1", tensor_parallel_size = 1, batch_size = 1 },
      { experiment_id = "E0.2", tensor_parallel_size = 2, batch_size = 2 },
    ]
  }
  axis "seq_len" { values = [64] }
  axis "max_tokens" { values = [8] }
}

collect "cells" {
  grid    = grid.cells
  runtime = runtime.server

  load { prompt = "token_ids" }
  iteration {
    warmup_iterations  = 1
    profile_iterations = 3
  }
}

gate "cells" {
  input = collect.cells
  check "rows" { condition = error_rate == 0 }
}

export "results" {
  input  = gate.cells
  layout = "experiment"
}

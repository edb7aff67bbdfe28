# Static steps of vLLM, by its offline engine: one prefill of a batch, and the decode
# steps of that batch. No server, no scheduler that has a choice: what is left
# between this and a prediction is kernels, launches and the engine's own Python.

variable "step_workloads" { default = [] } # objects with isl, osl, concurrency (the batch) and tensor_parallel_size

# tokens that one step may prefill; batches with more are left out, for their prefill would be several steps
variable "prefill_tokens" { default = 65536 }

variable "step_iterations" {
  default = 5

  validation {
    condition     = var.step_iterations >= 1 && var.step_iterations == floor(var.step_iterations)
    error_message = "step_iterations is a whole number from 1"
  }
}

variable "prefill_workloads" {
  default     = []
  description = "workloads as step_workloads, whose prefill is repeated without pause, as in a server full of prefills"

  validation {
    condition     = length(var.prefill_workloads) == 0 || length(var.step_workloads) > 0
    error_message = "prefills are repeated in the engine of step_workloads, and there are none"
  }
}

variable "prefill_soak" {
  default     = 1.5
  description = "seconds that prefills are repeated before they count: until the GPU has the clock that they leave it"

  validation {
    condition     = var.prefill_soak >= 0
    error_message = "prefill_soak is a number of seconds from 0"
  }
}

variable "trace_workloads" {
  default     = []
  description = "workloads as step_workloads, whose steps are traced by the profiler after all of those are measured"

  validation {
    condition     = length(var.trace_workloads) == 0 || length(var.step_workloads) > 0
    error_message = "traces are taken in the engine of step_workloads, and there are none"
  }
}

variable "traced_steps" { default = 8 } # decode steps of a trace
variable "engine_args" { default = {} } # further arguments of the offline engine, by the names of vllm.LLM
variable "telemetry" { default = null } # a telemetry block: what the GPUs did meanwhile becomes columns

locals {
  sizes = ["tensor_parallel_size", "isl", "concurrency"]
  # A column only where there are any.
  engine_args = length(keys(var.engine_args)) > 0 ? { engine_args = jsonencode(var.engine_args) } : {}
  # Steps, prefills and traces have one engine, with room for the largest step.
  seq_len      = try(max([for w in var.step_workloads : w.isl + w.osl]...), 1)
  max_num_seqs = try(max([for w in var.step_workloads : w.concurrency]...), 1)
}

runtime "steps" {
  kind      = "python"
  framework = "VLLM"
  package   = "vllm"
  python    = var.python
  requires  = var.requires
  env       = merge({ HF_HUB_OFFLINE = var.dummy ? "1" : "0" }, var.env)
  path      = ["steps.py"]

  fills_memory = true
  # Every engine takes the GPUs from the first one on, so two engines of one GPU each would share the first GPU.
  one_worker = true
}

part "engine" {
  description = "the engine of all steps, and what one step of it takes"

  axis "model" { values = [var.model] }
  axis "dtype" { values = [var.dtype] }
  axis "dummy" { values = [var.dummy] }
  axis "prefill_tokens" { values = [var.prefill_tokens] }
  axis "seq_len" { values = [local.seq_len] }
  axis "max_num_seqs" { values = [local.max_num_seqs] }

  filter "one_step" {
    keep   = isl * concurrency <= prefill_tokens
    reason = "its prefill is more than one step (prefill_tokens)"
  }
}

grid "steps" {
  for_each = length(var.step_workloads) > 0 ? toset(["all"]) : toset([])
  op       = "static_step"
  include  = [part.engine]

  axis "iterations" { values = [var.step_iterations] }

  rows "workload" {
    values = [for w in var.step_workloads : merge({ for c in concat(local.sizes, ["osl"]) : c => w[c] }, local.engine_args)]
  }

  filter "decodes" {
    keep   = osl >= 2
    reason = "a decode step is what tokens after the first take"
  }
}

collect "steps" {
  description = "static steps, by the framework's offline engine"
  for_each    = grid.steps
  grid        = each.value
  runtime     = runtime.steps
  telemetry   = var.telemetry
  weights     = ["tensor_parallel_size"]

  deadline { first = "20m" } # the engine loads the model and captures its graphs
}

grid "prefills" {
  for_each = length(var.prefill_workloads) > 0 ? toset(["all"]) : toset([])
  op       = "static_prefill"
  include  = [part.engine]

  axis "iterations" { values = [var.step_iterations] }
  axis "soak_s" { values = [var.prefill_soak] }
  rows "workload" { values = [for w in var.prefill_workloads : merge({ for c in local.sizes : c => w[c] }, local.engine_args)] }

  filter "fits" {
    keep   = isl < seq_len && concurrency <= max_num_seqs
    reason = "it does not fit into the engine of step_workloads"
  }
  distinct {}
}

collect "prefills" {
  description = "prefills that are repeated without pause"
  for_each    = grid.prefills
  grid        = each.value
  runtime     = runtime.steps
  telemetry   = var.telemetry
  weights     = ["tensor_parallel_size"]
  depends_on  = [collect.steps]
  deadline { first = "20m" }
}

grid "traces" {
  for_each = length(var.trace_workloads) > 0 ? toset(["all"]) : toset([])
  op       = "static_trace"
  include  = [part.engine]

  axis "traced_steps" { values = [var.traced_steps] }
  rows "workload" { values = [for w in var.trace_workloads : merge({ for c in local.sizes : c => w[c] }, local.engine_args)] }

  filter "fits" {
    keep   = isl + traced_steps < seq_len && concurrency <= max_num_seqs
    reason = "it does not fit into the engine of step_workloads"
  }
  distinct {}
}

collect "traces" {
  description = "kernels of static steps; slower than without the profiler"
  for_each    = grid.traces
  grid        = each.value
  runtime     = runtime.steps
  weights     = ["tensor_parallel_size"]
  depends_on  = [collect.steps, collect.prefills]
  deadline { first = "20m" }
}

# The collect of repeated prefills, in a list; empty without prefill_workloads.
output "prefills" { value = values(collect.prefills) }
output "traces" { value = values(collect.traces) } # the collect of traces, in a list; empty without trace_workloads
output "steps" { value = values(collect.steps) }   # the collect, in a list; empty without step_workloads

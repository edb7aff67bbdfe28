# How a model scales with tensor parallelism: E1.1 to E1.3. A cell is measured with
# closed batches, then traced with a few requests; no time comes from the traces.
#
#   aicplan plan  plans/experiments/tp_scaling.hcl
#   aicplan apply plans/experiments/tp_scaling.hcl --out-dir results
#   aicplan apply plans/experiments/tp_scaling.hcl --var 'only=["E1.1", "E1.2"]'
#
# Without a checkpoint, with random weights of the shape of Llama-3.1-8B:
#   aicplan apply plans/experiments/tp_scaling.hcl --var dummy=true \
#     --var "model=$PWD/plans/experiments/llama-3.1-8b"
#
# On Slurm, a task for each cell, with the server and its load in one allocation:
#   aicplan apply plans/experiments/tp_scaling.hcl --var executor=slurm --var account=m1234 \
#     --var 'modules=["python", "cuda/12.4"]' --var 'setup=["source activate vllm-profiling"]'
#
# A new experiment is a row of the list below. A row sets only what differs from the variables.
# An example is in docs/guides/experiments.md: DeepSeek-V2-Lite with expert parallelism.

include = ["../modules/database/executors.hcl"]

variable "experiments" {
  description = "the cells: an id, what it is, and the settings of its server and its iterations"

  type = list(object({
    experiment_id = string
    description   = optional(string, "")
    model         = optional(string) # a checkpoint's folder or name
    model_family  = optional(string)
    precision     = optional(string)

    tensor_parallel_size   = optional(number, 1)
    pipeline_parallel_size = optional(number, 1)
    data_parallel_size     = optional(number, 1)
    expert_parallel_size   = optional(number, 1)

    enforce_eager          = optional(bool, false)
    gpu_memory_utilization = optional(number)
    env                    = optional(map(string), {})  # NCCL_ALGO = "Ring"
    args                   = optional(list(string), []) # further arguments of the server

    batch_size         = optional(number)
    seq_len            = optional(number)
    max_tokens         = optional(number)
    warmup_iterations  = optional(number)
    profile_iterations = optional(number)
  }))

  default = [
    { experiment_id = "E1.1", description = "baseline, one GPU", tensor_parallel_size = 1 },
    { experiment_id = "E1.2", description = "tensor parallelism on two GPUs", tensor_parallel_size = 2 },
    { experiment_id = "E1.3", description = "tensor parallelism on four GPUs", tensor_parallel_size = 4 },
  ]

  # vLLM spreads the experts over all ranks of tensor and data parallelism, or over none.
  validation {
    condition = alltrue([for e in var.experiments :
    contains([1, e.tensor_parallel_size * e.data_parallel_size], e.expert_parallel_size)])
    error_message = "expert_parallel_size is 1 or tensor_parallel_size * data_parallel_size"
  }

  validation {
    condition     = length(distinct(var.experiments[*].experiment_id)) == length(var.experiments)
    error_message = "two experiments have the same experiment_id"
  }

  validation {
    condition     = alltrue([for e in var.experiments : can(regex("^[A-Za-z0-9][A-Za-z0-9._-]*$", e.experiment_id))])
    error_message = "experiment_id names a folder: use letters, digits, dots, _ and -, beginning with a letter or digit"
  }
}

variable "only" {
  type        = list(string)
  default     = []
  description = "ids of the experiments to run; empty runs all"
}

variable "model" { default = "meta-llama/Llama-3.1-8B" } # a checkpoint's folder or name
variable "model_family" { default = "llama-3.1-8b" }     # name of the model in requests, results and cards
variable "dummy" { default = false }                     # random weights and no tokenizer: a folder with a config.json is enough
variable "precision" { default = "bfloat16" }
variable "batch_size" { default = 4 }
variable "seq_len" { default = 2048 }   # tokens of prompt and answer together
variable "max_tokens" { default = 512 } # tokens of each answer
variable "warmup_iterations" { default = 2 }
variable "profile_iterations" { default = 5 }
variable "nsys" { default = false }                # record a report by nsys as well, of a server that is started for it
variable "program" { default = ["vllm", "serve"] } # what starts the server
variable "python" { default = "python3" }          # the interpreter that has vLLM
variable "tokenizer" { default = "" }              # the folder of the model's tokenizer.json; without it prompts are token ids

variable "server_args" {
  type        = list(string)
  default     = []
  description = "further arguments of all servers"
}

variable "server_env" {
  type    = map(string)
  default = {}
}

variable "ready_within" { default = "15m" }

# further fields of all workload cards: contributor, trace_url, "workload.hardware.xpu_spec.model"
variable "card" { default = {} }

variable "constraint" { default = "gpu" } # features of the nodes; "" for any
variable "qos" { default = "regular" }
variable "time" { default = "00:30:00" } # time limit of a cell

variable "gpus_per_node" {
  type        = number
  default     = null
  description = "GPUs of a node; by default those of the largest cell. A server runs on one node"
}

variable "modules" {
  type    = list(string)
  default = []
}

variable "setup" {
  type        = list(string)
  default     = []
  description = "lines before aicplan starts on a node"
}

variable "logs" {
  type        = string
  default     = null
  description = "folder of the output of jobs; by default in the state folder"
}

variable "poll" { default = "5s" } # interval between reads of the queue

locals {
  chosen = [for e in var.experiments : e if length(var.only) == 0 || contains(var.only, e.experiment_id)]

  # Columns of environment variables that some cell sets. A cell with null does not have the variable.
  env = distinct(flatten([for e in local.chosen : keys(e.env)]))

  cells = [for e in local.chosen : merge({
    experiment_id          = e.experiment_id
    model                  = coalesce(e.model_family, e.model, var.model_family)
    checkpoint             = coalesce(e.model, var.model)
    precision              = coalesce(e.precision, var.precision)
    tensor_parallel_size   = e.tensor_parallel_size
    pipeline_parallel_size = e.pipeline_parallel_size
    data_parallel_size     = e.data_parallel_size
    expert_parallel_size   = e.expert_parallel_size
    enforce_eager          = e.enforce_eager
    gpu_memory_utilization = e.gpu_memory_utilization
    batch_size             = coalesce(e.batch_size, var.batch_size)
    seq_len                = coalesce(e.seq_len, var.seq_len)
    max_tokens             = coalesce(e.max_tokens, var.max_tokens)
    warmup_iterations      = coalesce(e.warmup_iterations, var.warmup_iterations)
    profile_iterations     = coalesce(e.profile_iterations, var.profile_iterations)

    server_args = jsonencode(concat(
      e.data_parallel_size > 1 ? ["--data-parallel-size", tostring(e.data_parallel_size)] : [],
      e.expert_parallel_size > 1 ? ["--enable-expert-parallel"] : [],
      e.enforce_eager ? ["--enforce-eager"] : [],
      e.gpu_memory_utilization == null ? [] : ["--gpu-memory-utilization", tostring(e.gpu_memory_utilization)],
      e.args,
    ))
  }, { for name in local.env : lower(name) => try(e.env[name], null) })]

  gpus = [for e in local.chosen : e.tensor_parallel_size * e.pipeline_parallel_size * e.data_parallel_size]
}

# An array for each number of GPUs: a cell of one GPU holds no four.
executor "slurm" {
  kind          = "slurm"
  account       = var.account
  constraint    = var.constraint
  qos           = var.qos
  time          = var.time
  gpus_per_node = coalesce(var.gpus_per_node, max(1, local.gpus...))
  gpus_by       = ["tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"]
  tasks         = max(1, length(local.cells))
  job_name      = "tp_scaling"
  logs          = var.logs
  modules       = var.modules
  setup         = var.setup
  poll          = var.poll
}

module "vllm" {
  source = "../modules/serving/vllm"

  model        = "{checkpoint}"
  served_name  = "{model}"
  program      = var.program
  python       = var.python
  dtype        = "{precision}"
  dummy        = var.dummy
  args         = concat(var.server_args, ["{server_args...}"])
  env          = merge(var.server_env, { for name in local.env : name => "{${lower(name)}}" })
  labels       = ["expert_parallel_size", "enforce_eager", "gpu_memory_utilization"]
  tokenizer    = var.tokenizer
  ready_within = var.ready_within
}

telemetry "gpus" { interval = "100ms" }

grid "tp_scaling" {
  description = "a case is a cell"
  op          = "completions"
  rows "cell" { values = local.cells }
}

collect "tp_scaling" {
  description = "measure each cell, then trace it"
  grid        = grid.tp_scaling
  runtime     = module.vllm.runtime
  telemetry   = telemetry.gpus
  executor    = var.executor == "slurm" ? executor.slurm : executor.local

  load {
    prompt     = var.tokenizer == "" ? "token_ids" : "text"
    vocabulary = 100000
    seed       = 100
  }

  iteration {
    warmup_iterations  = var.warmup_iterations
    profile_iterations = var.profile_iterations
  }

  trace { nsys = var.nsys }
}

gate "cells" {
  description = "cells with requests that failed or figures that contradict each other are not published"
  input       = collect.tp_scaling

  check "rows" { condition = error_rate == 0 }
  check "rows" {
    name      = "client_saturation"
    condition = send_lag_p99 <= 10 && client_sched_p99 <= 10 && client_cpu_share <= 0.9
    severity  = "warn"
  }
  check "rows" {
    name      = "short_outputs"
    condition = short_outputs <= 0.01
    severity  = "warn"
  }

  # Figures that follow from each other. Rows that lack one of them are not judged.
  check "rows" {
    name       = "tokens/s and TPOT"
    min_judged = 0
    condition = abs(throughput_tokens_sec * (ttft + tpot * (output_length - 1))
    / (batch_size * output_length * 1000) - 1) <= 0.25
  }
  check "rows" {
    name       = "tokens/s and iterations"
    condition  = abs(throughput_tokens_sec * iteration_wall_clock * iterations / output_tokens - 1) <= 0.25
    min_judged = 0
  }
  check "rows" {
    name       = "GPUs and degrees of parallelism"
    condition  = gpus == tensor_parallel_size * coalesce(pipeline_parallel_size, 1) * coalesce(data_parallel_size, 1)
    min_judged = 0
  }
  check "rows" {
    name       = "GPUs and traces"
    condition  = gpus == traced_ranks
    min_judged = 0
  }
  check "rows" {
    name       = "communication"
    condition  = comm_overhead >= 0 && comm_overhead <= 100 && coalesce(comm_exposed_pct, 0) <= comm_overhead * 1.000001
    min_judged = 0
  }
  check "rows" {
    name       = "busy and bubbles"
    condition  = abs((trace_busy_ms + trace_bubble_ms) / trace_wall_ms - 1) <= 0.01
    min_judged = 0
  }
  check "rows" {
    name       = "energy"
    condition  = abs(gpu_energy_j / gpu_energy_by_power_j - 1) <= 0.05
    min_judged = 0
  }
}

# The files are written in any case: they say why a check failed.
export "results" {
  description = "traces, times and workload card of each cell; the table and the plots of all"
  input       = collect.tp_scaling
  layout      = "experiment"
  card        = var.card

  cards = { for e in local.chosen : e.experiment_id => {
    description = e.description
    hf_url = startswith(coalesce(e.model, var.model), "/") ? "" : (
    "https://huggingface.co/${coalesce(e.model, var.model)}")
  } }
}

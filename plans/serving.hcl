# Load on an OpenAI-compatible server, as AIPerf's tutorial on GPU telemetry has
# it: one load point by default, more with lists.
#
#   aicplan apply plans/serving.hcl --var model=Qwen/Qwen3-0.6B --out-dir artifacts
#   aicplan apply plans/serving.hcl --var model=m --var 'concurrency=[1, 4, 16]'
#
# Without a server: aicplan mock-server --listen 127.0.0.1:8000 --ttft 50ms --itl 5ms

variable "url" { default = "localhost:8000" }    # the server, with or without http://
variable "model" { default = "Qwen/Qwen3-0.6B" } # the name that the server knows the model by

variable "endpoint_type" {
  default     = "chat"
  description = "what is asked for: chat, completions or responses"

  validation {
    condition     = contains(["chat", "completions", "responses"], var.endpoint_type)
    error_message = "endpoint_type is chat, completions or responses; other APIs have no osl"
  }
}

variable "streaming" { default = true } # whether answers are streamed

variable "concurrency" {
  type        = any
  default     = 4
  description = "requests that are open at once; a list makes a case of each; 0 leaves it to request_rate"
}

variable "request_rate" {
  type        = any
  default     = 0
  description = "requests per second, Poisson; 0 sends as soon as concurrency lets; a list makes a case of each"
}

variable "requests" { default = 64 }       # requests of a case
variable "warmup_requests" { default = 1 } # requests before them, in no result

variable "isl" {
  type        = any
  default     = 100
  description = "mean tokens of a prompt; a list makes a case of each"
}

variable "isl_stddev" { default = 0 } # standard deviation of isl

variable "osl" {
  type        = any
  default     = 200
  description = "mean tokens to ask for, 0 for the server's choice; a list makes a case of each"
}

variable "osl_stddev" { default = 0 } # standard deviation of osl
variable "entries" { default = 0 }    # different prompts; 0 makes one for every request, so that none is found in a cache
variable "seed" { default = 100 }     # decides prompts and arrivals

# the folder of the model's tokenizer.json; without it the server's counts are taken
variable "tokenizer" { default = "" }

# an object that is merged into every body, such as { ignore_eos = true, min_tokens = 200 }
variable "extra_inputs" { default = {} }

variable "request_timeout" { default = 600 } # seconds that a request may take

variable "gpu_telemetry" {
  type        = list(string)
  default     = []
  description = "DCGM exporters, as HOST:PORT or URL; localhost:9400 and 9401 are tried as well"
}

variable "gpu_counters" { default = "" } # a counter file of the exporter

telemetry "gpus" {
  endpoints = var.gpu_telemetry
  counters  = var.gpu_counters == "" ? null : var.gpu_counters
}

runtime "server" {
  kind            = "endpoint"
  url             = var.url
  model           = var.model
  streaming       = var.streaming
  tokenizer       = var.tokenizer
  extra_inputs    = var.extra_inputs
  request_timeout = var.request_timeout
}

grid "load" {
  description = "a case is a load point"
  op          = var.endpoint_type
  axis "concurrency" { values = flatten([var.concurrency]) }
  axis "request_rate" { values = flatten([var.request_rate]) }
  axis "isl" { values = flatten([var.isl]) }
  axis "osl" { values = [for osl in flatten([var.osl]) : osl == 0 ? null : osl] }
}

collect "load" {
  description = "send, stamp and count"
  grid        = grid.load
  runtime     = runtime.server
  telemetry   = telemetry.gpus

  load {
    requests        = var.requests
    warmup_requests = var.warmup_requests
    isl_stddev      = var.isl_stddev
    osl_stddev      = var.osl_stddev
    entries         = var.entries
    seed            = var.seed
  }
}

export "aiperf" {
  description = "the files that AIPerf writes, in a folder for each case"
  input       = collect.load
  layout      = "aiperf"
}

# The files stay if a check fails, because they contain the reason.
gate "load" {
  description = "nothing void passes"
  input       = collect.load

  check "rows" {
    name      = "request_errors"
    condition = error_rate == 0
    fix       = "see the errors in profile_export_aiperf.json (error_summary)"
  }

  # The client must not be the bottleneck.
  check "rows" {
    name      = "client_saturation"
    condition = send_lag_p99 <= 10 && client_sched_p99 <= 10 && client_cpu_share <= 0.9
    severity  = "warn"
    fix       = "run the client on a machine with idle processors, or send less load"
  }

  # Servers that do not report their hits leave the rate null: then every prompt must be of its own.
  check "rows" {
    name      = "prefix_cache"
    condition = coalesce(cache_hit_rate, cached_prompt_share, unique_prompts < requests ? 1 : 0) <= 0.05
    severity  = "warn"
    fix       = "give every request its own prompt, or set cache_reset = \"require\""
  }

  check "rows" {
    name      = "short_outputs"
    condition = short_outputs <= 0.01
    severity  = "warn"
    fix       = "add extra_inputs = { ignore_eos = true } or min_tokens if the server accepts them"
  }

  check "rows" {
    name       = "token_mismatch"
    condition  = token_mismatch <= 0.01
    severity   = "warn"
    min_judged = 0
    fix        = "use the tokenizer of the served model"
  }
}
